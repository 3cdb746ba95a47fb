/* execute.c - runs a program's threads, cleans up, prints the transcript. */
#include "tests/fuzz/execute.h"
#include "tests/fuzz/execute_op.h"
#include "tests/fuzz/kernels.h"
#include "tests/fuzz/model.h"
#include "tests/simdriver/simcuda.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

extern __typeof__(cuStreamGetId) cuStreamGetId_ptsz;

_Atomic int64_t fz_at[FZ_THREADS] = {-1, -1, -1, -1};

static CUcontext context;
static bool managed;
enum { FLAGS_BYTES = 2 * FZ_THREADS * sizeof(uint32_t) };

static void must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "fuzz: %s gave %d\n", what, (int)r);
    exit(2);
}
#define MUST(call) must(call, #call)

void fz_execute_start(void)
{
    CUdevice device;
    fz_kernels_register();
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    int value = 1;
    if (fz_limits.real)
        MUST(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
    managed = value != 0;
    if (!managed)
        fprintf(stderr, "fuzz: no concurrent managed access: managed memory is pinned memory\n");
    cuSimLogStart();
}

void fz_note_stream(struct fz_handles *h, uint64_t id, int slot, int thread)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    h->seen = realloc(h->seen, (h->num_seen + 1) * sizeof *h->seen);
    h->seen[h->num_seen++] = (struct fz_stream_seen){id, slot, thread};
    pthread_mutex_unlock(&lock);
}

struct crew {
    const struct fz_program *program;
    const bool *legal;
    struct fz_handles *handles;
    struct fz_result *results;
    pthread_barrier_t barrier;
};
struct member {
    struct crew *crew;
    unsigned int thread;
    sem_t
        leave; /* two threads that end at once may block each other in the driver (580), eagerly */
};

/* With ops whose stream the generator does not ask for. */
static int stream_of(const struct fz_op *op)
{
    return op->kind == FZ_bad || op->kind == FZ_stale ? op->a[0]
           : op->kind == FZ_free                      ? op->a[2]
                                                      : fz_op_stream(op);
}

static bool uses_per_thread(const struct crew *c, unsigned int thread)
{
    for (size_t i = 0; i < c->program->count; i++) {
        const struct fz_op *op = &c->program->ops[i];
        int stream = op->thread == thread && c->legal[i] ? stream_of(op) : -1;
        if (stream == 2 || stream == 3)
            return true;
    }
    return false;
}

static void *work(void *argument)
{
    struct member *m = argument;
    struct crew *c = m->crew;
    if (m->thread)
        MUST(cuCtxSetCurrent(context));
    if (uses_per_thread(c, m->thread)) {
        unsigned long long id;
        MUST(cuStreamGetId_ptsz(NULL, &id));
        fz_note_stream(c->handles, id, 2, (int)m->thread);
    }
    for (size_t i = 0; i < c->program->count; i++) {
        const struct fz_op *op = &c->program->ops[i];
        if (!c->legal[i])
            continue;
        if (op->kind == FZ_barrier || op->thread == m->thread)
            fz_at[m->thread] = (int64_t)i;
        if (op->kind == FZ_barrier)
            pthread_barrier_wait(&c->barrier);
        else if (op->thread == m->thread)
            fz_run_op(c->handles, op, &c->results[i]);
    }
    fz_at[m->thread] = -1;
    pthread_barrier_wait(&c->barrier);
    if (m->thread)
        sem_wait(&m->leave);
    return NULL;
}

/* Thread 0 is the caller's: its per-thread stream and the library's memory of it stay. */
static void run_threads(struct crew *c)
{
    unsigned int n = c->program->threads ? c->program->threads : 1;
    struct member members[FZ_THREADS];
    pthread_t threads[FZ_THREADS];
    pthread_barrier_init(&c->barrier, NULL, n);
    for (unsigned int i = 0; i < n; i++) {
        members[i].crew = c;
        members[i].thread = i;
        sem_init(&members[i].leave, 0, 0);
    }
    for (unsigned int i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, &members[i]))
            abort();
    work(&members[0]);
    if (fz_limits.real && n > 1)
        cuCtxSynchronize(); /* a thread that ends with work in its own stream may not end (580) */
    for (unsigned int i = 1; i < n; i++) {
        sem_post(&members[i].leave);
        pthread_join(threads[i], NULL);
        sem_destroy(&members[i].leave);
    }
    pthread_barrier_destroy(&c->barrier);
}

/* ---- the end of a program --------------------------------------------------------------- */

static void end_captures(struct fz_handles *h)
{
    for (int i = FZ_FIRST_STREAM; i < FZ_STREAMS; i++) {
        CUstreamCaptureStatus status;
        CUgraph graph = NULL;
        if (!h->stream[i] || cuStreamIsCapturing(h->stream[i], &status) != CUDA_SUCCESS ||
            status == CU_STREAM_CAPTURE_STATUS_NONE)
            continue;
        if (cuStreamEndCapture(h->stream[i], &graph) == CUDA_SUCCESS)
            cuGraphDestroy(graph);
    }
}

static void print_memory(const struct fz_handles *h, FILE *out)
{
    for (int i = 0; i < FZ_BUFS; i++) {
        uint64_t words[FZ_MAX_WORDS] = {0}, hash = 0xcbf29ce484222325u;
        if (!h->buf[i].words)
            continue;
        CUresult r = cuMemcpyDtoH_v2(words, h->buf[i].device, h->buf[i].words * 8);
        for (uint32_t k = 0; k < h->buf[i].words; k++)
            hash = (hash ^ words[k]) * 0x100000001b3u;
        fprintf(out, "memory %d %d %016llx\n", i, (int)r, (unsigned long long)hash);
    }
}

static int by_thread(const void *a, const void *b)
{
    const struct fz_stream_seen *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread - y->thread;
    if (x->slot != y->slot)
        return x->slot - y->slot;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_default(const struct fz_stream_seen *s)
{
    return s->slot == 0 || s->slot == 2;
}

/* What another thread of the library submits for a per-thread default stream goes into the legacy
 * one, as that keeps its place. So where a program uses both kinds, what ran there is printed
 * without its order, which memory and results show. */
static void print_defaults(const struct fz_handles *h, FILE *out)
{
    char *texts[1 + FZ_THREADS], **lines = NULL;
    size_t num_texts = 0, n = 0;
    for (size_t i = 0; i < h->num_seen; i++) {
        if (!is_default(&h->seen[i]) || num_texts == sizeof texts / sizeof *texts)
            continue;
        char *text = cuSimLogText("exec", h->seen[i].id, 0), *state = NULL;
        texts[num_texts++] = text;
        for (char *line = text ? strtok_r(text, "\n", &state) : NULL; line;
             line = strtok_r(NULL, "\n", &state)) {
            char **grown = realloc(lines, (n + 1) * sizeof *lines);
            if (!grown)
                abort();
            lines = grown;
            lines[n++] = strchr(line + 5, ' ');
        }
    }
    if (n)
        qsort(lines, n, sizeof *lines, by_text);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "order of default streams%s\n", lines[i]);
    while (num_texts)
        free(texts[--num_texts]);
    free(lines);
}

/* What ran on each stream, in order. Streams of several threads come into being in any order. */
static void print_order(const struct fz_handles *h, FILE *out)
{
    size_t defaults = 0;
    if (fz_limits.forks) /* a graph of the library's has work of several streams */
        return;
    qsort(h->seen, h->num_seen, sizeof *h->seen, by_thread);
    for (size_t i = 0; i < h->num_seen; i++)
        defaults += is_default(&h->seen[i]);
    if (defaults > 1)
        print_defaults(h, out);
    for (size_t i = 0; i < h->num_seen; i++) {
        const struct fz_stream_seen *s = &h->seen[i];
        if (defaults > 1 && is_default(s))
            continue;
        char *text = cuSimLogText("exec", s->id, 0);
        for (char *line = text, *next; line && *line; line = next) {
            next = line + strcspn(line, "\n");
            if (*next)
                *next++ = '\0';
            char *details = strchr(line + 5, ' ');
            if (s->thread >= 0)
                fprintf(out, "order %d of thread %d%s\n", s->slot, s->thread, details);
            else
                fprintf(out, "order %d%s\n", s->slot, details);
        }
        free(text);
    }
}

static void clean_up(struct fz_handles *h)
{
    for (int i = 0; i < FZ_GRAPHS; i++) {
        if (h->graph[i].exec)
            cuGraphExecDestroy(h->graph[i].exec);
        if (h->graph[i].graph)
            cuGraphDestroy(h->graph[i].graph);
    }
    for (int i = FZ_FIRST_STREAM; i < FZ_STREAMS; i++)
        if (h->stream[i])
            cuStreamDestroy_v2(h->stream[i]);
    for (int i = 0; i < FZ_EVENTS; i++)
        if (h->event[i])
            cuEventDestroy_v2(h->event[i]);
    for (int i = 0; i < FZ_BUFS; i++)
        if (h->buf[i].words && h->buf[i].kind == FZ_PINNED)
            cuMemFreeHost(h->buf[i].host);
        else if (h->buf[i].words && h->buf[i].kind == FZ_DEVICE && fz_pooled(i))
            cuMemFreeAsync(h->buf[i].device, NULL);
        else if (h->buf[i].words)
            cuMemFree_v2(h->buf[i].device);
    for (int i = 0; i < FZ_MODULES; i++) {
        if (h->module[i].module)
            cuModuleUnload(h->module[i].module);
        if (h->module[i].library)
            cuLibraryUnload(h->module[i].library);
    }
    cuMemFreeHost(h->flags);
    if (h->away.module) {
        MUST(push(h->away.ctx));
        cuMemFree_v2(h->away.x);
        cuStreamDestroy_v2(h->away.stream);
        cuModuleUnload(h->away.module);
        MUST(cuCtxPopCurrent_v2(&h->away.ctx));
        cuDevicePrimaryCtxRelease_v2(1);
    }
    free(h->seen);
}

static void print_results(const struct fz_program *p, const struct fz_result *results, FILE *out)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct fz_result *r = &results[i];
        if (r->error == CUDA_SUCCESS && !r->seen)
            continue;
        fprintf(out, "op %zu: ", i);
        fz_op_print(out, &p->ops[i]);
        fprintf(out, " -> %d", (int)r->error);
        if (r->seen)
            fprintf(out, " %016llx", (unsigned long long)r->value);
        putc('\n', out);
    }
}

bool fz_execute(const struct fz_program *p, const bool *legal, FILE *out)
{
    struct fz_handles h = {.ctx = context};
    struct crew crew = {.program = p, .legal = legal, .handles = &h};
    unsigned long long id;
    uint64_t misuses = cuSimMisuseCount(), unsupported = cuSimUnsupportedCount();
    crew.results = calloc(p->count + 1, sizeof *crew.results);
    if (!crew.results)
        abort();
    MUST(cuMemHostAlloc((void **)&h.flags, FLAGS_BYTES + 64, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(h.flags, 0, FLAGS_BYTES + 64);
    h.scratch = (uint64_t *)(void *)(h.flags + FLAGS_BYTES / sizeof *h.flags);
    h.managed = managed;
    MUST(cuStreamGetId(NULL, &id));
    fz_note_stream(&h, id, 0, -1);
    cuSimLogClear();
    run_threads(&crew);
    end_captures(&h);
    CUresult end = cuCtxSynchronize();
    if (h.away.module) {
        MUST(push(h.away.ctx));
        cuCtxSynchronize();
        MUST(cuCtxPopCurrent_v2(&h.away.ctx));
    }
    print_results(p, crew.results, out);
    fprintf(out, "end %d, misuses %llu, not simulated %llu\n", (int)end,
            (unsigned long long)(cuSimMisuseCount() - misuses),
            (unsigned long long)(cuSimUnsupportedCount() - unsupported));
    print_order(&h, out);
    print_memory(&h, out);
    clean_up(&h);
    free(crew.results);
    return end == CUDA_SUCCESS;
}
