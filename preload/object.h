/* object.h - which loaded object an address belongs to. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ag_object {
    uintptr_t start; /* of its lowest segment */
    uintptr_t end;
    uintptr_t code_start; /* of the executable part */
    uintptr_t code_end;
    const char *path; /* the loader's: it lasts as long as the object is loaded */
};

struct dl_phdr_info;
void ag_object_describe(const struct dl_phdr_info *info, struct ag_object *object);

/* Unlike dladdr, this reads no symbol table, so it costs the same in a library of any size. It
 * leaves dlerror alone. */
bool ag_object_at(const void *address, struct ag_object *object);

/* The part of a path after the last '/'. */
const char *ag_file_name(const char *path);

/* Whether the object's file name begins with `prefix`. */
bool ag_object_is(const struct ag_object *object, const char *prefix);
