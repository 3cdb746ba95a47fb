/*
 * link.c - makes the loader hand out hooks.
 *
 * The library defines none of the driver's names itself. A program may define them as pointers of
 * its own (cuew, dynlink_cuda), and a weak reference would claim a driver that is not there.
 * Instead the library changes the driver's symbol table: the loader gets a copy in which the names
 * stand for hooks. So whatever would have bound to the driver binds to the library: now or later,
 * lazily or not, by dlsym from anywhere, and also under RTLD_DEEPBIND. Nothing else does. The
 * library also changes the words that the loader had bound to the driver before.
 *
 * This happens before any code of the driver, or of the objects loaded with it, has run. C's
 * start-up code in every object (crti.o) first calls __gmon_start__ if somebody defines it, as
 * profiled programs do. Objects are relocated by then. In a profiled program that call does not
 * come here; then the change happens at the next look-up of a name of the driver.
 *
 * All of it runs in a callback of dl_iterate_phdr(), so the loader's own lock is the only lock. So
 * a constructor that uses CUDA in one thread and a look-up in another thread never wait for each
 * other.
 *
 * Whatever loads a library comes here, in processes without CUDA as well: the end of a thread with
 * the smallest stack, or a backtrace on a handler's alternate one. So little is on the stack.
 */
#define _GNU_SOURCE
#include "preload/link.h"

#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "preload/elf.h"
#include "preload/object.h"
#include "preload/resolve.h"
#include "preload/substitute.h"

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, WORD = R_X86_64_64 };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, WORD = R_AARCH64_ABS64 };
#endif

/* For the process, under the loader's lock. */
static _Atomic unsigned long long seen; /* objects ever loaded, at the last look */
static _Atomic bool settled;       /* a driver was found, so there is nothing left to look for */
static char driver_path[PATH_MAX]; /* written when that is found */

struct look {
    const void *address; /* of the driver, while the loader may be busy; or NULL */
    bool first, found, incomplete;
};

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct ag_entry *)entry)->name);
}

/* The name of a driver symbol, if the symbol is a function named cu[A-Z]*. */
static const char *driver_function(const struct ag_elf *elf, size_t i)
{
    const ElfW(Sym) *symbol = &elf->symbols[i];
    const char *name = elf->strings + symbol->st_name;
    bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
                       symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
                       name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
    return is_function ? name : NULL;
}

/* Fills ag_real[]. If the driver lacks a function, its entry stays empty. */
static bool fill_real(const struct dl_phdr_info *info, const struct ag_elf *elf)
{
    for (size_t i = 1; i < elf->num_symbols; i++) {
        const char *name = driver_function(elf, i);
        const struct ag_entry *entry =
            name ? bsearch(name, ag_entries, AG_SYM_COUNT, sizeof(*ag_entries), by_name) : NULL;
        if (entry)
            ag_real[entry - ag_entries] = (void *)(info->dlpi_addr + elf->symbols[i].st_value);
    }
    return AG_HAVE(cuDriverGetVersion);
}

/* Whether driver_function() misses some entry point: one that is chosen when it is bound, or whose
 * address is not relative to the driver. No known driver has one. */
static bool has_others(const struct ag_elf *elf)
{
    for (size_t i = 1; i < elf->num_symbols; i++) {
        const ElfW(Sym) *symbol = &elf->symbols[i];
        unsigned int type = ELF64_ST_TYPE(symbol->st_info);
        const char *name = elf->strings + symbol->st_name;
        if (symbol->st_shndx != SHN_UNDEF && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' &&
            name[2] <= 'Z' &&
            (type == STT_GNU_IFUNC || (type == STT_FUNC && symbol->st_shndx == SHN_ABS)))
            return true;
    }
    return false;
}

/* Makes the loader's new table. Values are relative to the driver, even for addresses outside it.
 */
static bool change_symbols(const struct dl_phdr_info *info, const struct ag_elf *elf)
{
    size_t bytes = elf->num_symbols * sizeof(*elf->symbols);
    ElfW(Sym) *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return false;
    memcpy(copy, elf->symbols, bytes);
    for (size_t i = 1; i < elf->num_symbols; i++) {
        const char *name = driver_function(elf, i);
        if (name)
            copy[i].st_value =
                (uintptr_t)ag_hook_of((void *)(info->dlpi_addr + copy[i].st_value), name) -
                info->dlpi_addr;
    }
    mprotect(copy, bytes, PROT_READ);
    bool absolute = elf->symbols_entry->d_un.d_ptr >= info->dlpi_addr;
    return ag_elf_write(info, &elf->symbols_entry->d_un.d_ptr,
                        absolute ? (char *)copy : (char *)copy - info->dlpi_addr);
}

/* Changes the words of an object that are bound to the driver. */
static int rebind(struct dl_phdr_info *info, size_t size, void *data)
{
    struct look *look = data;
    struct ag_elf elf;
    (void)size;
    if (!ag_elf_read(info, &elf) || ag_in_driver(elf.symbols_entry) ||
        ag_is_ours(elf.symbols_entry))
        return 0;
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < elf.relocations[table].count; i++) {
            const ElfW(Rela) *relocation = &elf.relocations[table].first[i];
            unsigned int type = ELF64_R_TYPE(relocation->r_info);
            if (type != JUMP_SLOT && type != GLOB_DAT && type != WORD)
                continue;
            void **word = (void **)(info->dlpi_addr + relocation->r_offset);
            if (!ag_in_driver(*word))
                continue;
            const ElfW(Sym) *symbol = elf.symbols + ELF64_R_SYM(relocation->r_info);
            void *hook = ag_hook_of(*word, elf.strings + symbol->st_name);
            /* the loader may still be writing to an object, so its pages must not be made
             * read-only */
            bool may = !look->address || !ag_elf_is_closed(info, word);
            if (hook != *word && (!may || !ag_elf_write(info, word, hook)))
                look->incomplete = true;
        }
    return 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct look *look = data;
    struct ag_object object;
    struct ag_elf elf;
    (void)size;
    if (look->first && (settled || (!look->address && info->dlpi_adds == seen)))
        return 1;
    look->first = false;
    if (!look->address)
        seen = info->dlpi_adds;
    ag_object_describe(info, &object);
    if (look->address &&
        ((uintptr_t)look->address < object.start || (uintptr_t)look->address >= object.end))
        return 0;
    if (!ag_object_is(&object, "libcuda.so") || !ag_elf_read(info, &elf))
        return 0;
    if ((uintptr_t)elf.symbols < object.start || (uintptr_t)elf.symbols >= object.end) {
        settled = true;
        ag_options_read();
        ag_warn("start", "another library has replaced the driver's names before, perhaps a second "
                         "libautograph.so: this one does nothing");
        return 1;
    }
    if (!fill_real(info, &elf))
        return 0;
    settled = true;
    if (ag_is_off()) {
        if (!ag_options_mode_is_understood())
            ag_options_read(); /* prints that it is off because of that */
        return 1;
    }
    look->found = true;
    ag_options_read();
    snprintf(driver_path, sizeof(driver_path), "%s", object.path);
    ag_substitute_learn(&object);
    look->incomplete = !change_symbols(info, &elf) || has_others(&elf);
    dl_iterate_phdr(rebind, look);
    return 1;
}

#define UNSANITIZED __attribute__((no_sanitize_address, no_sanitize_thread))

/* The loader starts an object that wants to be first (-z initfirst, as valgrind's) before the C
 * library. Whatever is opened then, as the driver is here, makes the loader start the C library
 * without the process's environment. The C library always writes to `__environ`: a program may have
 * a variable named `environ` of its own. */
UNSANITIZED static bool c_library_has_started(void)
{
    static _Atomic bool has; /* a program may clear its environment */
    if (__environ)
        has = true;
    return has;
}

void ag_link_look_at(const void *address)
{
    struct look look = {.address = address, .first = true};
    if (settled || !c_library_has_started())
        return;
    dl_iterate_phdr(visit, &look);
    if (look.found)
        ag_resolve_found(driver_path, !look.incomplete);
}

/* A sanitizer's run time starts in constructors, and so later. Before that, instrumented code and
 * the sanitizer's versions of C library functions crash. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

__attribute__((visibility("default"))) UNSANITIZED void __gmon_start__(void)
{
    if (settled || !c_library_has_started())
        return;
    if (__asan_init)
        __asan_init();
    if (__tsan_init)
        __tsan_init();
    if (!seen) /* this library's own start-up code, before the program's */
        ag_log_look();
    ag_link_look_at(NULL);
}
