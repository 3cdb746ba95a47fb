/* elf.c - the dynamic section of a loaded object. */
#define _GNU_SOURCE
#include "preload/elf.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Some C libraries leave the addresses in the dynamic section as they are in the file. */
static const void *at(const struct dl_phdr_info *info, uintptr_t value)
{
    return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

/* Only the hash tables show how many symbols there are. */
static size_t count_by_gnu_hash(const uint32_t *table)
{
    const uint32_t num_buckets = table[0], first = table[1], num_filters = table[2];
    const uint32_t *buckets = table + 4 + num_filters * (sizeof(ElfW(Addr)) / sizeof(*table));
    const uint32_t *chains = buckets + num_buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < num_buckets; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < first)
        return first;
    while (!(chains[last - first] & 1))
        last++;
    return last + 1;
}

static void read_entry(const struct dl_phdr_info *info, struct ag_elf *elf, ElfW(Dyn) * entry,
                       size_t *relative)
{
    switch (entry->d_tag) {
    case DT_STRTAB:
        elf->strings = at(info, entry->d_un.d_ptr);
        break;
    case DT_SYMTAB:
        elf->symbols = at(info, entry->d_un.d_ptr);
        elf->symbols_entry = entry;
        break;
    case DT_HASH:
        elf->num_symbols = ((const uint32_t *)at(info, entry->d_un.d_ptr))[1];
        break;
    case DT_GNU_HASH:
        if (!elf->num_symbols)
            elf->num_symbols = count_by_gnu_hash(at(info, entry->d_un.d_ptr));
        break;
    case DT_RELA:
        elf->relocations[0].first = at(info, entry->d_un.d_ptr);
        break;
    case DT_RELASZ:
        elf->relocations[0].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
    case DT_RELACOUNT:
        *relative = entry->d_un.d_val;
        break;
    case DT_JMPREL:
        elf->relocations[1].first = at(info, entry->d_un.d_ptr);
        break;
    case DT_PLTRELSZ:
        elf->relocations[1].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
    }
}

bool ag_elf_read(const struct dl_phdr_info *info, struct ag_elf *elf)
{
    ElfW(Dyn) *entry = NULL;
    size_t relative = 0;
    *elf = (struct ag_elf){0};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++)
        read_entry(info, elf, entry, &relative);
    for (int i = 0; i < 2; i++)
        if (!elf->relocations[i].first)
            elf->relocations[i].count = 0;
    if (relative && relative <= elf->relocations[0].count) { /* they come first, without symbols */
        elf->relocations[0].first += relative;
        elf->relocations[0].count -= relative;
    }
    return elf->strings && elf->symbols;
}

/* The protection of an address's page; -1 if the page does not belong to the object. */
static int protection(const struct dl_phdr_info *info, uintptr_t address, uintptr_t page)
{
    int found = -1;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        uintptr_t end = start + segment->p_memsz;
        if (segment->p_type == PT_LOAD && address >= start && address < end)
            found = (segment->p_flags & PF_R ? PROT_READ : 0) |
                    (segment->p_flags & PF_W ? PROT_WRITE : 0) |
                    (segment->p_flags & PF_X ? PROT_EXEC : 0);
        /* read-only once relocated, in whole pages */
        if (segment->p_type == PT_GNU_RELRO && address >= (start & -page) &&
            address < (end & -page))
            return PROT_READ;
    }
    return found;
}

bool ag_elf_is_closed(const struct dl_phdr_info *info, const void *where)
{
    int allowed = protection(info, (uintptr_t)where, (uintptr_t)sysconf(_SC_PAGESIZE));
    return allowed < 0 || !(allowed & PROT_WRITE);
}

bool ag_elf_write(const struct dl_phdr_info *info, void *where, const void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)where & -page);
    int allowed = protection(info, (uintptr_t)where, page);
    bool closed = allowed >= 0 && !(allowed & PROT_WRITE);
    if (allowed < 0 || allowed & PROT_EXEC ||
        (closed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0))
        return false;
    __atomic_store_n((const void **)where, value, __ATOMIC_RELEASE);
    return !closed || mprotect(start, page, allowed) == 0;
}
