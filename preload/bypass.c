/*
 * bypass.c - what is loaded such that its look-ups do not come here.
 *
 * An object opened with RTLD_DEEPBIND finds the C library's dlsym before the preloaded one: the
 * pointer that it calls shows that. A namespace of its own (dlmopen) has no preloaded library at
 * all. Nothing can be done about either from here, and what is loaded later is not seen.
 */
#define _GNU_SOURCE
#include "preload/bypass.h"

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "capture/log.h"
#include "preload/dlsym.h"

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

struct imports {
    uintptr_t base;
    const char *strings;
    const ElfW(Sym) * symbols;
};

/* Some C libraries leave the addresses of the dynamic section as they are in the file. */
static const void *at(const struct dl_phdr_info *info, uintptr_t value)
{
    return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

/* Whether one of the relocations makes a pointer to the C library's dlsym. Relative ones have no
 * symbol and come first. */
static bool binds_past(const struct imports *object, const ElfW(Rela) * relocation, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned int type = ELF64_R_TYPE(relocation[i].r_info);
        const ElfW(Sym) *symbol = object->symbols + ELF64_R_SYM(relocation[i].r_info);
        if ((type == JUMP_SLOT || type == GLOB_DAT) && symbol->st_shndx == SHN_UNDEF &&
            strcmp(object->strings + symbol->st_name, "dlsym") == 0)
            return *(void **)(object->base + relocation[i].r_offset) == *(void **)&ag_real_dlsym;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct imports object = {.base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Rela) *rela = NULL;
    const ElfW(Rela) *jumps = NULL;
    size_t rela_bytes = 0, relative = 0, jump_bytes = 0;
    (void)size;
    (void)data;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_STRTAB:
            object.strings = at(info, dynamic->d_un.d_ptr);
            break;
        case DT_SYMTAB:
            object.symbols = at(info, dynamic->d_un.d_ptr);
            break;
        case DT_RELA:
            rela = at(info, dynamic->d_un.d_ptr);
            break;
        case DT_RELASZ:
            rela_bytes = dynamic->d_un.d_val;
            break;
        case DT_RELACOUNT:
            relative = dynamic->d_un.d_val;
            break;
        case DT_JMPREL:
            jumps = at(info, dynamic->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            jump_bytes = dynamic->d_un.d_val;
            break;
        }
    if (!object.strings || !object.symbols)
        return 0;
    size_t n = rela ? rela_bytes / sizeof(*rela) : 0;
    if ((jumps && binds_past(&object, jumps, jump_bytes / sizeof(*jumps))) ||
        (n > relative && binds_past(&object, rela + relative, n - relative)))
        ag_info("start", "%s was loaded with RTLD_DEEPBIND: what it looks up is not seen",
                info->dlpi_name);
    return 0;
}

void ag_bypass_report(void)
{
    if (ag_options.log_level < AG_LOG_INFO)
        return;
    dl_iterate_phdr(look, NULL);
    const struct r_debug *debug = &_r_debug;
    if (debug->r_version >= 2) /* glibc 2.35: there is another namespace */
        ag_info("start", "a namespace was opened with dlmopen: CUDA calls in it are not seen");
}
