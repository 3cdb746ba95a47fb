/*
 * elf_file.h - what the headers of a program's file say. The file is only read, and nothing of it
 * runs. To ask the loader about a program would start the interpreter that the program names.
 */
#pragma once

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

/* Reads a whole file in memory; the memory must stay valid. Damaged headers give empty answers. */
void elf_read(struct elf_file *e, const void *bytes, size_t size);
/* Whether the text appears anywhere in the file. */
bool elf_contains(const struct elf_file *e, const char *text);
