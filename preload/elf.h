/* elf.h - the dynamic section of a loaded object. */
#ifndef AG_ELF_H
#define AG_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* A table of relocations that name symbols. */
struct ag_relocations {
    const ElfW(Rela) * first;
    size_t count;
};

struct ag_elf {
    const char *strings;
    const ElfW(Sym) * symbols;
    size_t num_symbols;
    ElfW(Dyn) * symbols_entry; /* where the loader finds `symbols` */
    struct ag_relocations relocations[2];
};

/* False where it has no symbols. */
bool ag_elf_read(const struct dl_phdr_info *info, struct ag_elf *elf);

/* Whether a word is read-only, or not the object's. */
bool ag_elf_is_closed(const struct dl_phdr_info *info, const void *where);

/* Writes a word of the object, also where it is read-only. Under the loader's lock, that is in a
 * callback of dl_iterate_phdr(): two threads must not open and close one page. */
bool ag_elf_write(const struct dl_phdr_info *info, void *where, const void *value);

#endif
