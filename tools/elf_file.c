/* elf_file.c - see elf_file.h. Every offset is the file's word, and is looked at before it is used.
 */
#include "tools/elf_file.h"
#include <elf.h>
#include <string.h>

static bool inside(const struct elf_file *e, uint64_t at, uint64_t size)
{
    return at <= e->size && size <= e->size - at;
}

/* The text at `at`, NULL where it does not end within the file. */
static const char *text_at(const struct elf_file *e, uint64_t at)
{
    return at < e->size && memchr(e->bytes + at, 0, e->size - at) ? (const char *)e->bytes + at
                                                                  : NULL;
}

static bool program_header(const struct elf_file *e, const Elf64_Ehdr *head, unsigned int i,
                           Elf64_Phdr *p)
{
    uint64_t at = head->e_phoff + (uint64_t)i * sizeof(*p);
    if (head->e_phentsize != sizeof(*p) || head->e_phoff > e->size || !inside(e, at, sizeof(*p)))
        return false;
    memcpy(p, e->bytes + at, sizeof(*p));
    return true;
}

/* Where in the file an address is that the program will have in memory; 0: nowhere. */
static uint64_t offset_of(const struct elf_file *e, const Elf64_Ehdr *head, uint64_t address)
{
    Elf64_Phdr p;
    for (unsigned int i = 0; i < head->e_phnum && program_header(e, head, i, &p); i++)
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
            return p.p_offset + (address - p.p_vaddr);
    return 0;
}

static bool dynamic_at(const struct elf_file *e, uint64_t at, Elf64_Dyn *d)
{
    if (!inside(e, at, sizeof(*d)))
        return false;
    memcpy(d, e->bytes + at, sizeof(*d));
    return d->d_tag != DT_NULL;
}

static void read_dynamic(struct elf_file *e, const Elf64_Ehdr *head, const Elf64_Phdr *p)
{
    uint64_t strings = 0, end = p->p_offset + p->p_filesz;
    Elf64_Dyn d;
    if (!inside(e, p->p_offset, p->p_filesz))
        return;
    for (uint64_t at = p->p_offset; at < end && dynamic_at(e, at, &d); at += sizeof(d))
        if (d.d_tag == DT_STRTAB)
            strings = offset_of(e, head, d.d_un.d_ptr);
    for (uint64_t at = p->p_offset; at < end && dynamic_at(e, at, &d); at += sizeof(d)) {
        const char *name = d.d_tag == DT_NEEDED && strings && d.d_un.d_val < e->size
                               ? text_at(e, strings + d.d_un.d_val)
                               : NULL;
        if (name && e->num_needed < ELF_MOST_NEEDED)
            e->needed[e->num_needed++] = name;
    }
}

void elf_read(struct elf_file *e, const void *bytes, size_t size)
{
    Elf64_Ehdr head;
    Elf64_Phdr p;
    *e = (struct elf_file){.bytes = bytes, .size = size};
    if (size < sizeof(head))
        return;
    memcpy(&head, bytes, sizeof(head));
    e->is_elf = !memcmp(head.e_ident, ELFMAG, SELFMAG);
    e->is_64 = e->is_elf && head.e_ident[EI_CLASS] == ELFCLASS64;
    e->machine = head.e_machine;
    if (!e->is_64)
        return;
    for (unsigned int i = 0; i < head.e_phnum && program_header(e, &head, i, &p); i++) {
        if (p.p_type == PT_INTERP)
            e->interpreter = text_at(e, p.p_offset);
        else if (p.p_type == PT_DYNAMIC)
            read_dynamic(e, &head, &p);
    }
}

bool elf_contains(const struct elf_file *e, const char *text)
{
    return memmem(e->bytes, e->size, text, strlen(text)) != NULL;
}
