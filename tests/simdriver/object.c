/*
 * object.c - handles. An object is never given back to the allocator; a destroyed one goes on its
 * kind's list, and comes back only under SIMCUDA_HANDLES=reuse, last destroyed first.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[SIM_KIND_COUNT] = {
    [SIM_CONTEXT] = "context",
    [SIM_STREAM] = "stream",
    [SIM_EVENT] = "event",
    [SIM_MODULE] = "module",
    [SIM_LIBRARY] = "library",
    [SIM_FUNCTION] = "function",
    [SIM_KERNEL] = "kernel",
    [SIM_GRAPH] = "graph",
    [SIM_NODE] = "node",
    [SIM_EXEC] = "exec",
    [SIM_POOL] = "memory pool",
    [SIM_PHYSICAL] = "physical memory",
    [SIM_EXTERNAL_MEMORY] = "memory import",
    [SIM_SEMAPHORE] = "semaphore",
    [SIM_RESOURCE] = "resource",
    [SIM_ALLOCATION] = "allocation",
    [SIM_GREEN] = "green context",
    [SIM_DESCRIPTOR] = "resource descriptor",
};
static struct sim_object *all;
static struct sim_object *destroyed[SIM_KIND_COUNT];
static _Atomic int64_t alive[SIM_KIND_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void sim_object_count(enum sim_kind kind, int delta)
{
    atomic_fetch_add(&alive[kind], delta);
}

void *sim_object_take(enum sim_kind kind)
{
    struct sim_object *object = NULL;
    if (!sim_settings.reuse_handles)
        return NULL;
    pthread_mutex_lock(&lock);
    if (destroyed[kind]) {
        object = destroyed[kind];
        destroyed[kind] = object->next;
        object->next = NULL;
        atomic_store(&object->state, SIM_LIVE | (uint32_t)kind);
        sim_object_count(kind, 1);
    }
    pthread_mutex_unlock(&lock);
    return object;
}

void *sim_object_new(enum sim_kind kind, size_t size)
{
    /* Streams, contexts and events have threads and locks in them: what they were must be kept. */
    bool keeps = kind == SIM_STREAM || kind == SIM_CONTEXT || kind == SIM_EVENT;
    struct sim_object *object = keeps ? NULL : sim_object_take(kind);
    if (object) {
        memset((char *)object + sizeof *object, 0, size - sizeof *object);
        return object;
    }
    object = calloc(1, size);
    if (!object)
        return NULL;
    pthread_mutex_lock(&lock);
    object->all = all;
    all = object;
    pthread_mutex_unlock(&lock);
    atomic_store(&object->state, SIM_LIVE | (uint32_t)kind);
    sim_object_count(kind, 1);
    return object;
}

void sim_object_destroy(void *handle, enum sim_kind kind)
{
    struct sim_object *object = handle;
    if (atomic_load(&object->users))
        sim_misuse("a %s is destroyed while a call works with it", kind_names[kind]);
    if (kind == SIM_EVENT && sim_settings.slow_us)
        usleep(sim_settings.slow_us);
    atomic_store(&object->state, (uint32_t)kind);
    sim_object_count(kind, -1);
    pthread_mutex_lock(&lock);
    object->next = destroyed[kind];
    destroyed[kind] = object;
    pthread_mutex_unlock(&lock);
}

struct sim_object *sim_use(void *handle, bool alone)
{
    struct sim_object *object = handle;
    uint32_t others = atomic_fetch_add(&object->users, 1);
    if (others && alone)
        sim_misuse("two calls work with one object at the same time");
    if (sim_settings.slow_us)
        usleep(sim_settings.slow_us);
    return object;
}

void sim_unuse(struct sim_object **object)
{
    atomic_fetch_sub(&(*object)->users, 1);
}

bool sim_object_is(const void *handle, enum sim_kind kind)
{
    if ((uintptr_t)handle < 4096)
        return false;
    uint32_t state = atomic_load(&((struct sim_object *)(uintptr_t)handle)->state);
    if (state == (SIM_LIVE | (uint32_t)kind))
        return true;
    if (state == (uint32_t)kind)
        sim_misuse("a %s is used after it was destroyed", kind_names[kind]);
    return false;
}

SIM_EXPORT int64_t cuSimAlive(const char *kind)
{
    for (int i = 1; i < SIM_KIND_COUNT; i++)
        if (!strcmp(kind, kind_names[i]))
            return atomic_load(&alive[i]);
    return -1;
}
