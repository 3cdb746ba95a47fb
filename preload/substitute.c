/*
 * substitute.c - what is handed out for an address of the driver.
 *
 * The driver's getter chooses among versions and stream flavours by rules of its own. The library
 * need not know them: the address that the getter returns is one of the driver's exports, and the
 * export's name says which one. The table is written once, and then read without a lock.
 */
#define _GNU_SOURCE
#include "preload/substitute.h"

#include <pthread.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/settings/log.h"
#include "capture/system/lock.h"
#include "driver/table.h"
#include "preload/object.h"
#include "preload/stubs.h"

enum { BUCKETS = 2048 }; /* a power of two, three times the number of symbols */

static struct {
    const void *address;
    int sym;
} buckets[BUCKETS];

void *ag_target[AG_SYM_COUNT + AG_POOL_SIZE];

static struct ag_object driver;

/* The linker's names for the ends of this library. */
extern const char ag_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char ag_end[] __asm__("_end") __attribute__((visibility("hidden")));

static size_t bucket_of(const void *address)
{
    return (((uintptr_t)address >> 2) * 0x9E3779B97F4A7C15u) >> 53;
}

void ag_substitute_learn(const struct ag_object *object)
{
    driver = *object;
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        if (!ag_real[sym])
            continue;
        size_t at = bucket_of(ag_real[sym]);
        while (buckets[at].address && buckets[at].address != ag_real[sym])
            at = (at + 1) % BUCKETS;
        buckets[at].address = ag_real[sym];
        buckets[at].sym = sym;
        ag_target[sym] = ag_real[sym];
    }
}

int ag_symbol_at(const void *address)
{
    for (size_t at = bucket_of(address); buckets[at].address; at = (at + 1) % BUCKETS)
        if (buckets[at].address == address)
            return buckets[at].sym;
    return -1;
}

bool ag_in_driver(const void *address)
{
    return (uintptr_t)address >= driver.start && (uintptr_t)address < driver.end;
}

bool ag_in_driver_code(const void *address)
{
    return (uintptr_t)address >= driver.code_start && (uintptr_t)address < driver.code_end;
}

bool ag_is_ours(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)ag_start && (uintptr_t)address < (uintptr_t)ag_end;
}

/* Graphics interoperability is declared in headers of its own and is absent from the toolkit's
 * stub library, but every real driver exports it. None of it is common enough for the table. */
static bool is_interop(const char *name)
{
    static const char *const families[] = {
        "cuGL", "cuEGL", "cuVDPAU", "cuGraphics", "cuEventCreateFromEGL", "cuD3D", "cuWGL",
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strncmp(name, families[i], strlen(families[i])) == 0)
            return true;
    return false;
}

/* Prints once per process, because cudart asks for everything that it knows. */
static void say_unknown(const char *name)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    ag_debug("start", "%s is not in the table of entry points: it is treated as a barrier", name);
    if (!is_interop(name) && !atomic_flag_test_and_set(&said))
        ag_info("start",
                "this driver has entry points that this library does not know (%s first): "
                "they are treated as barriers",
                name);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the pool */
static enum ag_unknown kinds[AG_POOL_SIZE];

/* Whether a stream may wait for the program or for peers behind a call of this name, or behind a
 * graph with the node that it makes. */
static bool is_wait(const char *name)
{
    static const char *const families[] = {
        "cuStreamWaitValue",   "cuStreamBatchMemOp",
        "cuLaunchHostFunc",    "cuWaitExternalSemaphores",
        "cuStreamAddCallback", "cuGraphAddNode",
        "cuGraphAddHostNode",  "cuGraphAddExternalSemaphoresWaitNode",
        "cuGraphLaunch",       "cuGraphAddBatchMemOpNode",
        "cuLaunchKernel",      "cuLaunchCooperativeKernel",
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strncmp(name, families[i], strlen(families[i])) == 0)
            return true;
    return false;
}

/* Whether a barrier is too little for another version of this entry point. */
static bool changes_more(const struct ag_entry *entry)
{
    return entry->cls == AG_CLASS_TRACK ||
           entry->flags & (AG_ENTRY_KILLS_MAPPED | AG_ENTRY_KILLS_PEERS) || is_wait(entry->name);
}

/* Whether the name without its version ("_v2") is that of such an entry point. */
static bool is_version_of_such(const char *name)
{
    const char *version = strstr(name, "_v");
    size_t len = version ? (size_t)(version - name) : strlen(name);
    for (int i = 0; i < AG_SYM_COUNT; i++) {
        const struct ag_entry *entry = &ag_entries[i];
        if (changes_more(entry) && strncmp(entry->name, name, len) == 0 &&
            (entry->name[len] == '\0' || entry->name[len] == '_'))
            return true;
    }
    return false;
}

/* Judges by the name alone; cuStreamBeginRecaptureToGraph was once such an unknown name. */
static enum ag_unknown kind_of(const char *name)
{
    if (is_version_of_such(name))
        return AG_UNKNOWN_CHANGES;
    if (!strstr(name, "Capture") && !strstr(name, "capture"))
        return AG_UNKNOWN_CALL;
    if (strstr(name, "Begin"))
        return AG_UNKNOWN_BEGINS_CAPTURE;
    return strstr(name, "End") ? AG_UNKNOWN_ENDS_CAPTURE : AG_UNKNOWN_CAPTURE_CALL;
}

enum ag_unknown ag_unknown_kind(uint32_t slot)
{
    return kinds[slot];
}

/* A stub of its own for an entry point that is not in the table: a barrier. */
static void *pool_stub(void *address, const char *name)
{
    static size_t used;
    void *stub = NULL;
    ag_mutex_lock(&lock, AG_RANK_POOL);
    for (size_t slot = 0; !stub && slot < used; slot++)
        if (ag_target[AG_SYM_COUNT + slot] == address)
            stub = ag_pool_address[slot];
    if (!stub && used < AG_POOL_SIZE) {
        ag_target[AG_SYM_COUNT + used] = address;
        kinds[used] = kind_of(name);
        stub = ag_pool_address[used++];
    }
    ag_mutex_unlock(&lock);
    if (!stub) {
        ag_core_observe_only("the driver has more unknown entry points than there are stubs");
        return address;
    }
    return stub;
}

/* Programs also ask the getter for data ("" returns a cookie), so only names of functions get a
 * stub. The extra functions of the tests' simulated driver are not entry points; they may be
 * called at any time. */
static bool names_function(const char *name)
{
    return name && strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z' &&
           strncmp(name, "cuSim", strlen("cuSim")) != 0;
}

void *ag_hook_of(void *address, const char *name)
{
    int sym = ag_symbol_at(address);
    if (sym >= 0)
        return ag_hook_address[sym] ? ag_hook_address[sym] : address;
    return names_function(name) && ag_in_driver(address) ? pool_stub(address, name) : address;
}

/* The place of a stub in the pool, or -1. */
static int pool_slot(const void *stub)
{
    if ((uintptr_t)stub < (uintptr_t)ag_pool_address[0] ||
        (uintptr_t)stub > (uintptr_t)ag_pool_address[AG_POOL_SIZE - 1])
        return -1;
    int slot = 0;
    while (slot < AG_POOL_SIZE && ag_pool_address[slot] != stub)
        slot++;
    return slot < AG_POOL_SIZE ? slot : -1;
}

void *ag_substitute(void *address, const char *name)
{
    void *hook = ag_is_ours(address) ? address : ag_hook_of(address, name);
    if (pool_slot(hook) >= 0)
        say_unknown(name);
    else if (names_function(name) && !ag_is_ours(hook) && !ag_in_driver(hook))
        ag_core_observe_only("the driver's getter answered an address outside the driver");
    return hook;
}

void *ag_driver_function(void *hook)
{
    int slot = pool_slot(hook);
    if (slot >= 0)
        return ag_target[AG_SYM_COUNT + slot];
    for (int sym = 0; ag_is_ours(hook) && sym < AG_SYM_COUNT; sym++)
        if (ag_hook_address[sym] == hook)
            return ag_real[sym];
    return hook;
}

void ag_substitute_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}
