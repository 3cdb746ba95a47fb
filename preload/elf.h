/* elf.h - the dynamic section of a loaded object. */
#pragma once

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
    ElfW(Dyn) * symbols_entry; /* the entry that gives `symbols` to the loader */
    struct ag_relocations relocations[2];
};

/* Returns false if the object has no symbols. */
bool ag_elf_read(const struct dl_phdr_info *info, struct ag_elf *elf);

/* Whether a word is read-only, or does not belong to the object. */
bool ag_elf_is_closed(const struct dl_phdr_info *info, const void *where);

/* Writes a word of the object, even if it is read-only. Call it under the loader's lock, that is
 * in a callback of dl_iterate_phdr(): two threads must not unprotect and protect the same page. */
bool ag_elf_write(const struct dl_phdr_info *info, void *where, const void *value);
