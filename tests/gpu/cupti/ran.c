/*
 * ran.c - writes down which kernels and memsets the GPU really ran, by CUPTI's activity records.
 *
 * The driver loads this where CUDA_INJECTION64_PATH names it. Kernels inside graphs are reported
 * one by one. At exit the file $AG_RAN_DIR/ran.PID.txt gets lines that do not depend on handles:
 *   count N GRAPHED NAME   launches of a kernel, and how many of them were nodes of a graph
 *   stream N HASH          launches on a stream and a hash of their names in the order in which
 * they ran; sorted, so that the streams' numbers do not matter all N HASH             the same over
 * all streams dropped N              records that CUPTI lost: nothing can be said if it is not 0
 * AG_RAN_SEQUENCE=1 adds a line "ran CONTEXT STREAM GRAPHED NAME" for each launch.
 *
 * The library runs memsets by a kernel of its own: both count as "[memset]". Copies are not
 * counted, nor is the kernel by which the library runs small ones.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (8u << 20)
#define NAMES        4096
#define FNV_START    0xcbf29ce484222325u
#define FNV_PRIME    0x100000001b3u

#if CUDA_VERSION >= 13000
typedef CUpti_ActivityKernel10 kernel_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
#endif
typedef CUpti_ActivityMemset4 memset_record;

struct launch {
    uint64_t start;
    uint32_t context, stream;
    uint16_t name;
    bool graphed;
};

static struct {
    pthread_mutex_t lock;
    struct launch *launches;
    size_t count, capacity, dropped;
    char *names[NAMES];
    uint64_t hashes[NAMES];
    size_t num_names;
    pid_t pid;
} ran = {.lock = PTHREAD_MUTEX_INITIALIZER};

int InitializeInjection(void);

static __attribute__((noreturn)) void fail(const char *what, const char *why)
{
    fprintf(stderr, "ran: %s: %s\n", what, why);
    _exit(97);
}

static void check(CUptiResult result, const char *what)
{
    if (result != CUPTI_SUCCESS) {
        const char *text = "unknown error";
        cuptiGetResultString(result, &text);
        fail(what, text);
    }
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = FNV_START;
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
    }
    return hash;
}

static uint16_t name_index(const char *name)
{
    if (!name) {
        name = "[no name]";
    } else if (strstr(name, "ag_fill")) {
        name = "[memset]";
    }
    uint64_t hash = hash_text(name);
    for (size_t i = 0; i < ran.num_names; i++) {
        if (ran.hashes[i] == hash) {
            return (uint16_t)i;
        }
    }
    if (ran.num_names == NAMES) {
        fail("names", "more different kernels than there is room for");
    }
    ran.names[ran.num_names] = strdup(name);
    ran.hashes[ran.num_names] = hash;
    if (!ran.names[ran.num_names]) {
        fail("names", "out of memory");
    }
    return (uint16_t)ran.num_names++;
}

static void add(struct launch launch)
{
    if (ran.count == ran.capacity) {
        ran.capacity = ran.capacity ? 2 * ran.capacity : 1u << 16;
        ran.launches = realloc(ran.launches, ran.capacity * sizeof *ran.launches);
        if (!ran.launches) {
            fail("launches", "out of memory");
        }
    }
    ran.launches[ran.count++] = launch;
}

static void take_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
        record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const kernel_record *k = (const kernel_record *)(const void *)record;
        if (k->name && strstr(k->name, "ag_copy")) {
            return;
        }
        add((struct launch){k->start, k->contextId, k->streamId, name_index(k->name),
                            k->graphNodeId != 0});
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const memset_record *m = (const memset_record *)(const void *)record;
        add((struct launch){m->start, m->contextId, m->streamId, name_index("[memset]"),
                            m->graphNodeId != 0});
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = aligned_alloc(64, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    (void)size;
    pthread_mutex_lock(&ran.lock);
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take_record(record);
    }
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
        ran.dropped += dropped;
    }
    pthread_mutex_unlock(&ran.lock);
    free(buffer);
}

static int by_time(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int by_stream(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;
    if (x->context != y->context) {
        return x->context < y->context ? -1 : 1;
    }
    if (x->stream != y->stream) {
        return x->stream < y->stream ? -1 : 1;
    }
    return by_time(a, b);
}

/* The hash of launches [from, to). */
static uint64_t hash_run(size_t from, size_t to)
{
    uint64_t hash = FNV_START;
    for (size_t i = from; i < to; i++) {
        hash = (hash ^ ran.hashes[ran.launches[i].name]) * FNV_PRIME;
    }
    return hash;
}

static void write_counts(FILE *file)
{
    size_t *count = calloc(2 * ran.num_names + 1, sizeof *count);
    if (!count) {
        fail("counts", "out of memory");
    }
    for (size_t i = 0; i < ran.count; i++) {
        count[2 * ran.launches[i].name]++;
        count[2 * ran.launches[i].name + 1] += ran.launches[i].graphed;
    }
    for (size_t i = 0; i < ran.num_names; i++) {
        fprintf(file, "count %zu %zu %s\n", count[2 * i], count[2 * i + 1], ran.names[i]);
    }
    free(count);
}

static void write_streams(FILE *file)
{
    qsort(ran.launches, ran.count, sizeof *ran.launches, by_stream);
    for (size_t from = 0, to; from < ran.count; from = to) {
        const struct launch *first = &ran.launches[from];
        for (to = from; to < ran.count && ran.launches[to].context == first->context &&
                        ran.launches[to].stream == first->stream;
             to++) {
        }
        fprintf(file, "stream %zu 0x%016" PRIx64 "\n", to - from, hash_run(from, to));
    }
}

static void write_all(FILE *file)
{
    qsort(ran.launches, ran.count, sizeof *ran.launches, by_time);
    fprintf(file, "all %zu 0x%016" PRIx64 "\n", ran.count, hash_run(0, ran.count));
    if (getenv("AG_RAN_SEQUENCE")) {
        for (size_t i = 0; i < ran.count; i++) {
            const struct launch *l = &ran.launches[i];
            fprintf(file, "ran %u %u %d %s\n", l->context, l->stream, l->graphed,
                    ran.names[l->name]);
        }
    }
}

/* Runs before cudart's own exit handler, which was registered earlier: the context still exists. */
static void write_down(void)
{
    char path[4096];
    const char *folder = getenv("AG_RAN_DIR");
    if (getpid() != ran.pid) {
        return; /* a forked child: what it has was its parent's */
    }
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    snprintf(path, sizeof path, "%s/ran.%d.txt", folder ? folder : ".", (int)ran.pid);
    FILE *file = fopen(path, "w");
    if (!file) {
        fail(path, "cannot be written");
    }
    pthread_mutex_lock(&ran.lock);
    write_counts(file);
    write_streams(file);
    write_all(file);
    fprintf(file, "dropped %zu\n", ran.dropped);
    pthread_mutex_unlock(&ran.lock);
    fclose(file);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    if (ran.pid) {
        return 1;
    }
    ran.pid = getpid();
    check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
          "cuptiActivityRegisterCallbacks");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernel activity");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "memset activity");
    atexit(write_down);
    return 1;
}
