/*
 * substitute.c - answering look-ups by address.
 *
 * The driver's getter chooses among versions and stream flavours by rules of its own. They need not
 * be known here: the address it answers is one of its exports, and the export's name says which it
 * is. The table is written once and read without a lock afterwards.
 */
#define _GNU_SOURCE
#include "preload/substitute.h"

#include <pthread.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/log.h"
#include "preload/object.h"
#include "preload/table.h"

enum { BUCKETS = 2048 }; /* a power of two, three times the number of symbols */

static struct {
    const void *address;
    int sym;
} buckets[BUCKETS];

static struct ag_object driver;
static struct ag_object self;

static size_t bucket_of(const void *address)
{
    return (((uintptr_t)address >> 2) * 0x9E3779B97F4A7C15u) >> 53;
}

void ag_substitute_learn(void)
{
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        if (!ag_real[sym])
            continue;
        size_t at = bucket_of(ag_real[sym]);
        while (buckets[at].address && buckets[at].address != ag_real[sym])
            at = (at + 1) % BUCKETS;
        buckets[at].address = ag_real[sym];
        buckets[at].sym = sym;
    }
    ag_object_at(ag_real[AG_SYM_cuDriverGetVersion], &driver);
    ag_object_at(buckets, &self);
}

int ag_symbol_at(const void *address)
{
    for (size_t at = bucket_of(address); buckets[at].address; at = (at + 1) % BUCKETS)
        if (buckets[at].address == address)
            return buckets[at].sym;
    return -1;
}

static bool inside(const struct ag_object *object, const void *address)
{
    return (uintptr_t)address >= object->start && (uintptr_t)address < object->end;
}

bool ag_in_driver(const void *address)
{
    return inside(&driver, address);
}

bool ag_is_ours(const void *address)
{
    return inside(&self, address);
}

/* Graphics interoperability is declared in headers of its own and absent from the toolkit's stub
 * library; every real driver exports it. Nothing of it is common enough for the table. */
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

/* Once for the process: cudart asks for all that it knows. */
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the pool */

/* An entry point that is not in the table: a barrier, by a stub of its own. */
static void *pool_stub(void *address, const char *name)
{
    static size_t used;
    void *stub = NULL;
    bool fresh = false;
    pthread_mutex_lock(&lock);
    for (size_t slot = 0; !stub && slot < used; slot++)
        if (ag_target[AG_SYM_COUNT + slot] == address)
            stub = ag_pool_address[slot];
    if (!stub && used < AG_POOL_SIZE) {
        ag_target[AG_SYM_COUNT + used] = address;
        stub = ag_pool_address[used++];
        fresh = true;
    }
    pthread_mutex_unlock(&lock);
    if (!stub) {
        ag_capture_observe_only("the driver has more unknown entry points than there are stubs");
        return address;
    }
    if (fresh)
        say_unknown(name);
    return stub;
}

void *ag_substitute(void *address, const char *name)
{
    int sym = ag_symbol_at(address);
    if (sym >= 0)
        return ag_hook_address[sym] ? ag_hook_address[sym] : address;
    if (ag_is_ours(address))
        return address;
    /* The getter is also asked for data ("" answers a cookie): only names of functions get a stub.
     */
    if (!name || strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z')
        return address;
    if (ag_in_driver(address))
        return pool_stub(address, name);
    ag_capture_observe_only("the driver's getter answered an address outside the driver");
    return address;
}

void ag_substitute_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}
