/*
 * spans.c - writes down when the GPU was busy, by CUPTI's activity records.
 *
 * The driver loads this where CUDA_INJECTION64_PATH names it. At exit $AG_SPANS_DIR/spans.PID gets
 * a header of 32 bytes and then 24 bytes for each kernel, memset and copy that the GPU ran, those
 * in graphs one by one; spans.py reads it. Times are CUPTI's own; the header has what its clock and
 * the wall clock said at one moment.
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (8u << 20)

#if CUDA_VERSION >= 13000
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 memcpy_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 memcpy_record;
#endif
typedef CUpti_ActivityMemset4 memset_record;

enum { KERNEL, MEMSET, COPY };

struct header {
    char magic[8];
    uint64_t gpu_ns, wall_ns; /* the same moment */
    uint64_t dropped;         /* records that CUPTI lost */
};

struct span {
    uint64_t start, end;
    uint32_t kind, graphed;
};

static struct {
    pthread_mutex_t lock;
    struct span *all;
    size_t count, capacity, dropped;
    pid_t pid;
} spans = {.lock = PTHREAD_MUTEX_INITIALIZER};

int InitializeInjection(void);

static __attribute__((noreturn)) void fail(const char *what, const char *why)
{
    fprintf(stderr, "spans: %s: %s\n", what, why);
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

static void add(uint64_t start, uint64_t end, uint32_t kind, uint64_t node)
{
    if (spans.count == spans.capacity) {
        spans.capacity = spans.capacity ? 2 * spans.capacity : 1u << 16;
        spans.all = realloc(spans.all, spans.capacity * sizeof *spans.all);
        if (!spans.all) {
            fail("spans", "out of memory");
        }
    }
    spans.all[spans.count++] = (struct span){start, end, kind, node != 0};
}

static void take_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
        record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const kernel_record *k = (const kernel_record *)(const void *)record;
        add(k->start, k->end, KERNEL, k->graphNodeId);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const memset_record *m = (const memset_record *)(const void *)record;
        add(m->start, m->end, MEMSET, m->graphNodeId);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const memcpy_record *m = (const memcpy_record *)(const void *)record;
        add(m->start, m->end, COPY, m->graphNodeId);
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
    pthread_mutex_lock(&spans.lock);
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        take_record(record);
    }
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
        spans.dropped += dropped;
    }
    pthread_mutex_unlock(&spans.lock);
    free(buffer);
}

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Runs before cudart's own exit handler, which was registered earlier: the context still exists. */
static void write_down(void)
{
    char path[4096];
    const char *folder = getenv("AG_SPANS_DIR");
    struct header header = {.magic = "AGSPANS"};
    if (getpid() != spans.pid) {
        return; /* a forked child: what it has was its parent's */
    }
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    uint64_t before = wall_ns();
    check(cuptiGetTimestamp(&header.gpu_ns), "cuptiGetTimestamp");
    header.wall_ns = before + (wall_ns() - before) / 2;
    snprintf(path, sizeof path, "%s/spans.%d", folder ? folder : ".", (int)spans.pid);
    FILE *file = fopen(path, "w");
    if (!file) {
        fail(path, "cannot be written");
    }
    pthread_mutex_lock(&spans.lock);
    header.dropped = spans.dropped;
    if (fwrite(&header, sizeof header, 1, file) != 1 ||
        fwrite(spans.all, sizeof *spans.all, spans.count, file) != spans.count) {
        fail(path, "cannot be written");
    }
    pthread_mutex_unlock(&spans.lock);
    fclose(file);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    if (spans.pid) {
        return 1;
    }
    spans.pid = getpid();
    check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
          "cuptiActivityRegisterCallbacks");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernel activity");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "memset activity");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copy activity");
    atexit(write_down);
    return 1;
}
