/*
 * exporttable.c - copies unknown tables of the driver's own functions, and puts stubs into the
 * copies.
 *
 * A table of the driver begins with its size in bytes; the rest are functions, or NULL. The
 * library does not understand a table that looks different.
 *
 * A stub ends with a jump to the function, so it must do all its work before the function runs.
 * That is the right time for draining deferred ops. Remembered memory ranges are also discarded
 * before the call. Another thread could look memory up again during the call, but then it would
 * use memory that is about to be freed, which no correct program does.
 */
#include "preload/exporttable.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/settings/log.h"
#include "capture/system/lock.h"
#include "preload/object.h"
#include "preload/resolve.h"
#include "preload/substitute.h"

enum {
    MOST_TABLES = 64,
    MOST_BYTES = 8192, /* of a table: a larger number is not a size */
    ID_TEXT = 37
};

struct table {
    unsigned char id[16];
    const void **copy;
};
static struct table tables[MOST_TABLES];
static uint32_t num_tables;

struct function {
    void *address;
    const struct table *table;
    uint32_t entry; /* index of the word in the table */
    _Atomic uint64_t calls;
};
static struct function functions[AG_TABLE_STUBS];
static _Atomic uint32_t num_functions;

/* Guards both while something is added. Its holder makes no driver call, and no call that takes
 * the loader's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

extern const char ag_table_stubs[AG_TABLE_STUBS][AG_TABLE_STUB_BYTES];

static const char *id_text(const unsigned char *id, char text[ID_TEXT])
{
    size_t n = 0;
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(text + n, ID_TEXT - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
    return text;
}

/* The file that contains the code at an address. */
static const char *file_at(const void *address, struct ag_object *object)
{
    if (!ag_object_at(address, object))
        return "code of no file";
    const char *file = ag_file_name(object->path);
    return *file ? file : "the program";
}

/* How many words a table has, including its size; 0 if its layout is not understood. */
static size_t words_of(const void *const *table)
{
    if (!ag_in_driver(table) || (uintptr_t)table % sizeof(*table))
        return 0;
    uintptr_t bytes = (uintptr_t)table[0];
    if (bytes < 2 * sizeof(*table) || bytes > MOST_BYTES || bytes % sizeof(*table) ||
        !ag_in_driver((const char *)table + bytes - 1))
        return 0;
    for (size_t i = 1; i < bytes / sizeof(*table); i++)
        if (table[i] && !ag_in_driver_code(table[i]))
            return 0;
    return bytes / sizeof(*table);
}

/* Call it under the lock. NULL if there is no room. */
static const void **copy_of(const void *const *table, size_t words, const unsigned char *id)
{
    uint32_t used = atomic_load(&num_functions);
    const void **copy = calloc(words, sizeof(*copy));
    if (!copy || num_tables == MOST_TABLES || words > AG_TABLE_STUBS - used) {
        free(copy);
        return NULL;
    }
    struct table *t = &tables[num_tables];
    memcpy(t->id, id, sizeof(t->id));
    t->copy = copy;
    copy[0] = table[0];
    for (size_t i = 1; i < words; i++) {
        int sym = table[i] ? ag_symbol_at(table[i]) : -1;
        if (sym >= 0) {
            copy[i] = ag_substitute((void *)(uintptr_t)table[i], ag_entries[sym].name);
        } else if (table[i]) {
            functions[used].address = (void *)(uintptr_t)table[i];
            functions[used].table = t;
            functions[used].entry = (uint32_t)i;
            copy[i] = ag_table_stubs[used++];
        }
    }
    atomic_store(&num_functions, used);
    num_tables++;
    return copy;
}

/* A copy lasts as long as its id, so that a library that asks in every step gets the same copy
 * each time. */
static const void **find_or_copy(const void *const *table, size_t words, const unsigned char *id,
                                 bool *fresh)
{
    const void **copy = NULL;
    ag_mutex_lock(&lock, AG_RANK_TABLES);
    for (uint32_t i = 0; !copy && i < num_tables; i++)
        if (memcmp(tables[i].id, id, sizeof(tables[i].id)) == 0)
            copy = tables[i].copy;
    *fresh = !copy;
    if (!copy)
        copy = copy_of(table, words, id);
    ag_mutex_unlock(&lock);
    return copy;
}

/* Logs the id, so that somebody can find out what the table is for. */
static const void *untouched(const void *table, const unsigned char *id, const char *what)
{
    char why[128], text[ID_TEXT];
    snprintf(why, sizeof(why), "an export table that nobody knows %s: %s", what, id_text(id, text));
    if (ag_options.force)
        ag_log_line("start", "%s", why);
    else
        ag_core_observe_only(why);
    return table;
}

const void *ag_export_table(const void *table, const unsigned char *id, const void *caller)
{
    struct ag_object object;
    char text[ID_TEXT];
    bool fresh;
    size_t words = words_of(table);
    if (!words)
        return untouched(table, id, "has a layout that is not understood");
    const void **copy = find_or_copy(table, words, id, &fresh);
    if (!copy)
        return untouched(table, id, "has more functions than there are stubs");
    if (fresh)
        ag_info("start", "%s asks for an export table that nobody knows: %s, %zu words",
                file_at(caller, &object), id_text(id, text), words);
    return copy;
}

static void say_first(const struct function *f, const void *caller)
{
    struct ag_object object;
    char text[ID_TEXT];
    ag_info("start", "%s calls entry %u of the export table %s", file_at(caller, &object), f->entry,
            id_text(f->table->id, text));
}

void *ag_export_table_call(uint32_t number, const void *caller)
{
    struct function *f = &functions[number];
    bool first = atomic_fetch_add_explicit(&f->calls, 1, memory_order_relaxed) == 0;
    if (ag_hooked() && ag_core_active()) {
        if (first)
            say_first(f, caller);
        ag_core_table_call(first);
    }
    return f->address;
}

void ag_export_tables_report(void)
{
    char text[ID_TEXT];
    for (uint32_t i = 0; i < atomic_load(&num_functions); i++) {
        const struct function *f = &functions[i];
        uint64_t calls = atomic_load(&f->calls);
        if (calls)
            ag_info("start", "entry %u of the export table %s was called %llu times", f->entry,
                    id_text(f->table->id, text), (unsigned long long)calls);
    }
}

void ag_export_tables_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}
