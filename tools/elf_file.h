/*
 * elf_file.h - what the headers of a program's file tell. The file is read, and nothing of it is
 * run: a program that the loader is asked about has its own interpreter started for that.
 */
#ifndef AG_TOOLS_ELF_FILE_H
#define AG_TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_MOST_NEEDED = 64 };

struct elf_file {
    const unsigned char *bytes;
    size_t size;
    bool is_elf, is_64;
    unsigned int machine;                /* EM_* */
    const char *interpreter;             /* PT_INTERP, NULL: no loader runs */
    const char *needed[ELF_MOST_NEEDED]; /* DT_NEEDED */
    size_t num_needed;
};

/* Of a whole file in memory, which must stay there; damaged headers give empty answers. */
void elf_read(struct elf_file *e, const void *bytes, size_t size);
/* Whether one of the needed libraries has this beginning. */
bool elf_needs(const struct elf_file *e, const char *beginning);
/* Whether the text stands anywhere in the file. */
bool elf_contains(const struct elf_file *e, const char *text);

#endif
