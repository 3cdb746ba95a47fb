/*
 * object.c - which loaded object an address belongs to.
 *
 * dl_iterate_phdr() takes a lock of the loader. A child of a fork may inherit that lock from a
 * thread that it does not have, and would then wait for ever. Every look-up asks for the object,
 * so the library uses the way without a lock if the C library has it (glibc 2.35).
 */
#define _GNU_SOURCE
#include "preload/object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

struct search {
    uintptr_t address;
    struct ag_object *object;
};

void ag_object_describe(const struct dl_phdr_info *info, struct ag_object *object)
{
    uintptr_t start = UINTPTR_MAX;
    uintptr_t end = 0;
    uintptr_t code_start = UINTPTR_MAX;
    uintptr_t code_end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t low = info->dlpi_addr + segment->p_vaddr;
        uintptr_t high = low + segment->p_memsz;
        start = low < start ? low : start;
        end = high > end ? high : end;
        if (!(segment->p_flags & PF_X))
            continue;
        code_start = low < code_start ? low : code_start;
        code_end = high > code_end ? high : code_end;
    }
    object->start = start;
    object->end = end;
    object->code_start = code_start;
    object->code_end = code_end;
    object->path = info->dlpi_name;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && search->address >= low &&
            search->address < low + segment->p_memsz) {
            ag_object_describe(info, search->object);
            return 1;
        }
    }
    return 0;
}

typedef int find_function(void *address, struct dl_find_object *found);

/* The C library's _dl_find_object, or NULL. */
static find_function *find_object(void)
{
    static find_function *_Atomic function;
    static atomic_bool asked;
    if (!atomic_load_explicit(&asked, memory_order_acquire)) {
        find_function *found;
        *(void **)&found = dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35");
        dlerror();
        atomic_store_explicit(&function, found, memory_order_relaxed);
        atomic_store_explicit(&asked, true, memory_order_release);
    }
    return atomic_load_explicit(&function, memory_order_relaxed);
}

static bool find(find_function *function, const void *address, struct ag_object *object)
{
    struct dl_find_object found;
    if (function((void *)(uintptr_t)address, &found) != 0)
        return false;
    object->start = (uintptr_t)found.dlfo_map_start;
    object->end = (uintptr_t)found.dlfo_map_end;
    object->path = found.dlfo_link_map->l_name;
    return true;
}

bool ag_object_at(const void *address, struct ag_object *object)
{
    find_function *function = find_object();
    if (function)
        return find(function, address, object);
    struct search search = {.address = (uintptr_t)address, .object = object};
    return dl_iterate_phdr(look, &search) != 0;
}

const char *ag_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool ag_object_is(const struct ag_object *object, const char *prefix)
{
    return strncmp(ag_file_name(object->path), prefix, strlen(prefix)) == 0;
}
