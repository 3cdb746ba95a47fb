/* op.c - what an operation holds, and its execution: for eager work and graph nodes alike. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t executed[SIM_OP_IMAGE + 1];
static const char *const kind_names[SIM_OP_IMAGE + 1] = {
    [SIM_OP_EMPTY] = "empty",   [SIM_OP_KERNEL] = "kernel", [SIM_OP_COPY] = "copy",
    [SIM_OP_MEMSET] = "memset", [SIM_OP_HOST] = "host",     [SIM_OP_RECORD] = "record",
    [SIM_OP_WAIT] = "wait",     [SIM_OP_MEMOP] = "memop",   [SIM_OP_FREE] = "free",
    [SIM_OP_ALLOC] = "alloc",   [SIM_OP_CHILD] = "child",   [SIM_OP_SIGNAL] = "signal",
    [SIM_OP_AWAIT] = "await",   [SIM_OP_MAP] = "map",       [SIM_OP_UNMAP] = "unmap",
    [SIM_OP_IMAGE] = "graph",
};

SIM_EXPORT uint64_t cuSimExecuted(const char *kind)
{
    for (int i = 0; i <= SIM_OP_IMAGE; i++)
        if (!strcmp(kind, kind_names[i]))
            return atomic_load(&executed[i]);
    return 0;
}

struct sim_args *sim_args_new(size_t size)
{
    struct sim_args *args = malloc(sizeof *args + size);
    if (args) {
        atomic_init(&args->refs, 1);
        args->size = size;
    }
    return args;
}

static void args_drop(struct sim_args *args)
{
    if (args && atomic_fetch_sub(&args->refs, 1) == 1)
        free(args);
}

static void args_hold(struct sim_args *args)
{
    if (args)
        atomic_fetch_add_explicit(&args->refs, 1, memory_order_relaxed);
}

void sim_image_drop(struct sim_image *image)
{
    if (atomic_fetch_sub(&image->refs, 1) != 1)
        return;
    for (unsigned int i = 0; i < image->count; i++)
        sim_op_drop(&image->steps[i].op);
    free(image);
}

void sim_op_hold(struct sim_op *op)
{
    if (op->kind == SIM_OP_KERNEL)
        args_hold(op->launch.args);
    else if (op->kind == SIM_OP_COPY)
        args_hold(op->copy.staged);
    else if (op->kind == SIM_OP_IMAGE)
        atomic_fetch_add(&op->image->refs, 1);
}

void sim_op_drop(struct sim_op *op)
{
    if (op->kind == SIM_OP_KERNEL)
        args_drop(op->launch.args);
    else if (op->kind == SIM_OP_COPY)
        args_drop(op->copy.staged);
    else if (op->kind == SIM_OP_IMAGE)
        sim_image_drop(op->image);
}

bool sim_op_may_block(const struct sim_op *op)
{
    switch (op->kind) {
    case SIM_OP_KERNEL:
        return op->launch.code->flags & CUSIM_MAY_BLOCK;
    case SIM_OP_HOST:
    case SIM_OP_UNMAP:
        return true; /* the program's code: it must not meet the locks of the submitting thread */
    case SIM_OP_MEMOP:
        return op->memop.wait;
    case SIM_OP_AWAIT:
        return true;
    case SIM_OP_WAIT:
        return op->record.event->shared != NULL; /* another process has to come */
    case SIM_OP_IMAGE:
        for (unsigned int i = 0; i < op->image->count; i++)
            if (sim_op_may_block(&op->image->steps[i].op))
                return true;
        return false;
    default:
        return false;
    }
}

/* ---- execution
 * ------------------------------------------------------------------------------------ */

static uint64_t digest(const struct sim_launch *l)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (unsigned int p = 0; p < l->code->nparams; p++) {
        const unsigned char *bytes = l->args->bytes + l->code->offsets[p];
        for (size_t i = 0; i < l->code->sizes[p]; i++)
            h = (h ^ bytes[i]) * 0x100000001b3u;
    }
    return h;
}

/* Says so where a kernel has another priority than its stream. */
static void log_kernel(struct sim_stream *s, const struct sim_launch *l, enum sim_op_kind as,
                       const char *what)
{
    char text[300], priority[32] = "";
    if (l && l->priority != s->priority)
        snprintf(priority, sizeof priority, " priority %d", l->priority);
    snprintf(text, sizeof text, "%s%s", what, priority);
    sim_log_exec(s->id, kind_names[as], text);
}

/* A memset and a launch of the library's fill kernel look alike in the log: four bytes that are
 * repeated, how many bytes of them, how many rows. So do a copy and a launch of its copy kernel. */
static void log_fill(struct sim_stream *s, const struct sim_launch *l, uintptr_t dst,
                     uint32_t pattern, size_t width, size_t rows)
{
    char text[128];
    snprintf(text, sizeof text, "%#lx %#010x %zux%zu", (unsigned long)dst, pattern, width, rows);
    log_kernel(s, l, SIM_OP_MEMSET, text);
}

/* How many bytes: who copies may take rows that lie side by side for one. */
static void log_copy(struct sim_stream *s, const struct sim_launch *l, size_t width, size_t height,
                     size_t depth)
{
    char text[128];
    snprintf(text, sizeof text, "%zu", width * height * depth);
    log_kernel(s, l, SIM_OP_COPY, text);
}

static bool log_as_copy(const struct sim_op *op, struct sim_stream *s)
{
    if (op->kind == SIM_OP_KERNEL && !strcmp(op->launch.code->name, "ag_copy")) {
        uint64_t args[9]; /* ownkernels.cu */
        memcpy(args, op->launch.args->bytes, sizeof args);
        log_copy(s, &op->launch, args[2], args[3], args[4]);
        return true;
    }
    if (op->kind != SIM_OP_COPY)
        return false;
    log_copy(s, NULL, op->copy.width, op->copy.height, op->copy.depth);
    return true;
}

static bool log_as_fill(const struct sim_op *op, struct sim_stream *s)
{
    if (op->kind == SIM_OP_KERNEL && !strcmp(op->launch.code->name, "ag_fill")) {
        uint64_t args[5] = {0}; /* ownkernels.cu; the last one is a uint32_t */
        memcpy(args, op->launch.args->bytes, 4 * sizeof *args + sizeof(uint32_t));
        log_fill(s, &op->launch, args[0], (uint32_t)args[4], args[2], args[3]);
        return true;
    }
    if (op->kind != SIM_OP_MEMSET)
        return false;
    const struct sim_memset *f = &op->fill;
    uint32_t pattern = f->elem_size == 1   ? (f->value & 0xff) * 0x01010101u
                       : f->elem_size == 2 ? (f->value & 0xffff) * 0x00010001u
                                           : f->value;
    log_fill(s, NULL, f->dst, pattern, f->width * f->elem_size, f->height);
    return true;
}

static void log_op(const struct sim_op *op, struct sim_stream *s)
{
    if (log_as_fill(op, s) || log_as_copy(op, s))
        return;
    char text[256];
    const struct sim_launch *l = &op->launch;
    switch (op->kind) {
    case SIM_OP_KERNEL:
        if (!strcmp(l->code->name, "ag_fence"))
            return; /* it is not the program's work */
        snprintf(text, sizeof text, "%s %u,%u,%u %u,%u,%u %u %016llx", l->code->name, l->grid[0],
                 l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared_bytes,
                 (unsigned long long)digest(l));
        log_kernel(s, l, op->kind, text);
        return;
    case SIM_OP_HOST:
        text[0] = '-';
        text[1] = '\0';
        break;
    case SIM_OP_MEMOP:
        snprintf(text, sizeof text, "%s %#lx %llu", op->memop.wait ? "wait" : "write",
                 (unsigned long)op->memop.address, (unsigned long long)op->memop.value);
        break;
    case SIM_OP_SIGNAL:
    case SIM_OP_AWAIT:
        snprintf(text, sizeof text, "%llu", (unsigned long long)op->fence.value);
        break;
    case SIM_OP_MAP:
    case SIM_OP_UNMAP:
        snprintf(text, sizeof text, "%llu", (unsigned long long)sim_resource_id(op->resource));
        break;
    default:
        return; /* markers are not work that the device does */
    }
    sim_log_exec(s->id, kind_names[op->kind], text);
}

static void run_kernel(const struct sim_launch *l)
{
    void *few[16];
    unsigned int n = l->code->nparams;
    void **params = n <= 16 ? few : malloc(n * sizeof *params);
    for (unsigned int i = 0; i < n; i++)
        params[i] = l->args->bytes + l->code->offsets[i];
    struct cuSimLaunch launch = {.name = l->code->name,
                                 .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                 .block = {l->block[0], l->block[1], l->block[2]},
                                 .shared_bytes = l->shared_bytes,
                                 .params = params};
    l->code->fn(&launch);
    if (params != few)
        free(params);
}

/* Whether all rows of one side may still be touched; the call itself checked it, a free may have
 * come since. Host memory that the table does not know is the program's own. */
static bool side_alive(uintptr_t base, size_t extent)
{
    struct sim_allocation a;
    if (!sim_mem_find(base, &a))
        return false;
    return extent <= a.base + a.size - base;
}

void sim_move(void *to, const void *from, size_t bytes)
{
    uint64_t word = 0;
    if ((bytes != 8 && bytes != 4) || (uintptr_t)to % bytes) {
        memmove(to, from, bytes);
        return;
    }
    memcpy(&word, from, bytes);
    if (bytes == 8)
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELAXED);
    else
        __atomic_store_n((uint32_t *)to, (uint32_t)word, __ATOMIC_RELAXED);
}

static void run_copy(const struct sim_copy *c)
{
    uintptr_t src = c->staged ? (uintptr_t)c->staged->bytes : c->src;
    if (!c->host && (!side_alive(c->dst, 1) || !side_alive(src, 1))) {
        sim_misuse("a copy runs on memory that was freed");
        cuSimRaise(CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++)
            sim_move((void *)(c->dst + z * c->dst_slice + y * c->dst_pitch),
                     (void *)(src + z * c->src_slice + y * c->src_pitch), c->width);
}

static void run_memset(const struct sim_memset *m)
{
    if (!side_alive(m->dst, 1)) {
        sim_misuse("a memset runs on memory that was freed");
        cuSimRaise(CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    for (size_t y = 0; y < m->height; y++) {
        unsigned char *row = (unsigned char *)(m->dst + y * m->pitch);
        if (m->elem_size == 1)
            memset(row, (int)m->value, m->width);
        else
            for (size_t x = 0; x < m->width; x++)
                sim_move(row + x * m->elem_size, &m->value, m->elem_size);
    }
}

static bool condition_holds(const struct sim_memop *m)
{
    uint64_t now = m->wide ? __atomic_load_n((uint64_t *)m->address, __ATOMIC_SEQ_CST)
                           : __atomic_load_n((uint32_t *)m->address, __ATOMIC_SEQ_CST);
    switch (m->flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == m->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & m->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return ~(now | m->value) << (m->wide ? 0 : 32) != 0;
    default:
        return m->wide ? (int64_t)(now - m->value) >= 0
                       : (int32_t)((uint32_t)now - (uint32_t)m->value) >= 0;
    }
}

static void run_memop(const struct sim_memop *m)
{
    if (!sim_mem_covers(m->address, m->wide ? 8 : 4)) {
        sim_misuse("a stream memory operation runs on memory that was freed");
        cuSimRaise(CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    if (m->wait)
        for (unsigned int n = 0; !condition_holds(m); n++)
            sim_look_later(n);
    else if (m->wide)
        __atomic_store_n((uint64_t *)m->address, m->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint32_t *)m->address, (uint32_t)m->value, __ATOMIC_SEQ_CST);
}

static void run_record(const struct sim_op *op)
{
    struct sim_event *e = op->record.event;
    pthread_mutex_lock(&e->lock);
    /* A later record has taken the event over: its time is the one to keep. */
    if (!op->record.ticket || e->ticket == op->record.ticket)
        e->time_ns = sim_now_ns();
    pthread_mutex_unlock(&e->lock);
    if (e->shared)
        sim_shared_event_done(e->shared, op->record.ticket);
}

static void run_fence(const struct sim_op *op)
{
    if (!sim_semaphore_run(op->fence.semaphore, op->fence.value, op->kind == SIM_OP_AWAIT)) {
        sim_misuse("a stream comes to a semaphore that was destroyed");
        cuSimRaise(CUDA_ERROR_UNKNOWN);
    }
}

/* What kernels of the graph that this thread runs have written late. */
static _Thread_local struct late {
    bool in_graph;
    unsigned int count;
    struct {
        unsigned int *word, value;
    } writes[64];
} late;

void sim_show_late_writes(void)
{
    for (unsigned int i = 0; i < late.count; i++)
        __atomic_store_n(late.writes[i].word, late.writes[i].value, __ATOMIC_RELEASE);
    late.count = 0;
}

static bool is_outside(const void *word)
{
    struct sim_allocation a;
    return sim_mem_find((uintptr_t)word, &a) &&
           (a.memory == SIM_MEM_HOST || a.memory == SIM_MEM_REGISTERED ||
            a.device != sim_running->ctx->device);
}

void sim_word_shows(const void *word)
{
    if (late.count && is_outside(word))
        sim_misuse("a word is seen before what was written earlier");
}

void sim_write_late(unsigned int *word, unsigned int value)
{
    if (late.count == sizeof late.writes / sizeof *late.writes)
        sim_show_late_writes();
    if (late.in_graph && is_outside(word)) {
        late.writes[late.count].word = word;
        late.writes[late.count++].value = value;
    } else {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
}

void sim_op_run(const struct sim_op *op, struct sim_stream *s)
{
    CUresult error = (CUresult)atomic_load(&s->ctx->error);
    if (error != CUDA_SUCCESS) {
        /* After a sticky error nothing runs any more; a stream callback learns of it. */
        if (op->kind == SIM_OP_HOST && op->host.callback)
            op->host.callback(op->host.stream, error, op->host.data);
        /* Nor may another process wait for ever. */
        if (op->kind == SIM_OP_RECORD && op->record.event->shared)
            sim_shared_event_done(op->record.event->shared, op->record.ticket);
        return;
    }
    if (op->kind == SIM_OP_IMAGE) {
        for (unsigned int i = 0; i < op->image->count; i++) {
            struct sim_op step = op->image->steps[i].op;
            if (!op->image->steps[i].enabled)
                continue;
            /* Memory that a graph allocates stays with the context: launched again, it is the same.
             */
            if (step.kind == SIM_OP_FREE) {
                sim_mem_graph_frees(step.memory.address);
                continue;
            }
            if (step.kind == SIM_OP_KERNEL && !op->image->node_priorities)
                step.launch.priority = s->priority;
            if (step.kind != SIM_OP_KERNEL)
                sim_show_late_writes();
            late.in_graph = true;
            sim_op_run(&step, s);
        }
        late.in_graph = false;
        sim_show_late_writes();
        return;
    }
    atomic_fetch_add_explicit(&executed[op->kind], 1, memory_order_relaxed);
    if (sim_log_on())
        log_op(op, s);
    switch (op->kind) {
    case SIM_OP_KERNEL:
        run_kernel(&op->launch);
        break;
    case SIM_OP_COPY:
        run_copy(&op->copy);
        break;
    case SIM_OP_MEMSET:
        run_memset(&op->fill);
        break;
    case SIM_OP_HOST:
        if (op->host.callback)
            op->host.callback(op->host.stream, CUDA_SUCCESS, op->host.data);
        else
            op->host.fn(op->host.data);
        break;
    case SIM_OP_RECORD:
        run_record(op);
        break;
    case SIM_OP_WAIT:
        if (op->record.event->shared)
            sim_shared_event_wait(op->record.event->shared, op->record.ticket);
        break;
    case SIM_OP_MEMOP:
        run_memop(&op->memop);
        break;
    case SIM_OP_SIGNAL:
    case SIM_OP_AWAIT:
        run_fence(op);
        break;
    case SIM_OP_UNMAP:
        sim_resource_render(op->resource);
        break;
    case SIM_OP_FREE:
        sim_mem_release(op->memory.address, SIM_MEM_DEVICE);
        break;
    default:
        break;
    }
}

SIM_EXPORT void cuSimRaise(int error)
{
    if (sim_running)
        sim_context_raise(sim_running->ctx, (CUresult)error);
}

SIM_EXPORT int cuSimCheck(const void *address, size_t bytes)
{
    if (sim_mem_covers((uintptr_t)address, bytes))
        return 1;
    sim_misuse("a kernel touches %zu bytes at %p, which is not allocated", bytes, address);
    cuSimRaise(CUDA_ERROR_ILLEGAL_ADDRESS);
    return 0;
}
