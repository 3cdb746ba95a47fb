/*
 * sim.h - the simulated driver's own data and the functions its files share.
 *
 * Locks, outermost first: sim_lock (captures, graphs, context lists, modules), then a stream's lock
 * (its queue), then the leaf locks (memory table, log, event). Work runs with no lock held, except
 * in inline mode, where the stream's lock is held while the submitting thread executes.
 *
 * Objects behind handles are never given back to the allocator: a destroyed one keeps its header,
 * so that a stale handle is recognised and not dereferenced into somebody else's memory.
 */
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "simcuda.h"
#include "sim_symbols.h"

#define SIM_EXPORT       __attribute__((visibility("default")))
#define SIM_UNPAREN(...) __VA_ARGS__

/* An entry point: counts, faults and log around a body. `args` are the names of `params`. */
#define SIM_API(name, params, args)                                                                \
    static CUresult impl_##name params;                                                            \
    SIM_EXPORT CUresult CUDAAPI name params                                                        \
    {                                                                                              \
        CUresult sim_result = sim_enter(SIM_##name);                                               \
        if (sim_result == CUDA_SUCCESS)                                                            \
            sim_result = impl_##name args;                                                         \
        return sim_leave(SIM_##name, sim_result);                                                  \
    }                                                                                              \
    static CUresult impl_##name params

/* An entry point with its _ptsz or _ptds twin: the body learns which by `ptsz`. */
#define SIM_API2(name, twin, params, args)                                                         \
    static CUresult impl_##name(bool ptsz, SIM_UNPAREN params);                                    \
    SIM_EXPORT CUresult CUDAAPI name params                                                        \
    {                                                                                              \
        CUresult sim_result = sim_enter(SIM_##name);                                               \
        if (sim_result == CUDA_SUCCESS)                                                            \
            sim_result = impl_##name(false, SIM_UNPAREN args);                                     \
        return sim_leave(SIM_##name, sim_result);                                                  \
    }                                                                                              \
    SIM_EXPORT CUresult CUDAAPI twin params                                                        \
    {                                                                                              \
        CUresult sim_result = sim_enter(SIM_##twin);                                               \
        if (sim_result == CUDA_SUCCESS)                                                            \
            sim_result = impl_##name(true, SIM_UNPAREN args);                                      \
        return sim_leave(SIM_##twin, sim_result);                                                  \
    }                                                                                              \
    static CUresult impl_##name(bool ptsz, SIM_UNPAREN params)

/* ---- process (process.c, fault.c, late.c, log.c)
 * --------------------------------------------------------
 */

enum sim_mode { SIM_ASYNC, SIM_INLINE, SIM_NULL };
struct sim_settings {
    enum sim_mode mode;
    int version;
    int devices;
    size_t memory; /* of each device */
    bool graphs_last_first;
    size_t node_bytes; /* of it, that a node of an executable graph takes */
    bool reuse_handles;
    bool report_leaks;
    unsigned int slow_us; /* that a call works with an event or an executable graph */
    bool fatbins;
    bool blocking;  /* CUDA_LAUNCH_BLOCKING */
    uint64_t queue; /* unfinished items that a stream takes before a call waits; 0: no limit */
    unsigned int
        waits; /* 1: to load a module, to make or destroy an executable graph waits for the
                  GPU, with the driver's locks held. More: to make one more graph than that */
    const char *log_path;
    const char *tables;
};
extern struct sim_settings sim_settings;
/* SIMCUDA_PACE. Call what submits or waits only if it is on. */
struct sim_pace {
    bool on;
    unsigned int launch_ns, graph_ns, update_ns, kernel_ns;
};
extern struct sim_pace sim_pace;
struct sim_stream;
bool sim_pace_parse(const char *text);
void sim_pace_call(uint64_t ns);
/* A call of `ns` that gives the stream so many kernels to run. */
void sim_pace_submit(struct sim_stream *s, uint64_t ns, unsigned int kernels);
void sim_pace_wait(struct sim_stream *s);
bool sim_pace_is_idle(struct sim_stream *s);
extern pthread_mutex_t sim_lock;

/* Why sim_enter may not take its short way. */
enum {
    SIM_ATTEND_UNINITIALISED = 1,
    SIM_ATTEND_FORKED = 2,
    SIM_ATTEND_FAULTS = 4,
    SIM_ATTEND_LOG = 8,
    SIM_ATTEND_ERRORS = 16,
    SIM_ATTEND_LOCKED = 32,
    SIM_ATTEND_LATE = 64
};
extern _Atomic unsigned int sim_attention;
extern _Atomic uint64_t sim_calls[SIM_SYMBOL_COUNT];

CUresult sim_enter_slow(enum sim_symbol symbol);
/* Waits while the process is locked for a checkpoint, in calls that do. */
void sim_checkpoint_wait(enum sim_symbol symbol);
CUresult sim_leave_slow(enum sim_symbol symbol, CUresult result);
static inline CUresult sim_enter(enum sim_symbol symbol)
{
    atomic_fetch_add_explicit(&sim_calls[symbol], 1, memory_order_relaxed);
    if (atomic_load_explicit(&sim_attention, memory_order_acquire))
        return sim_enter_slow(symbol);
    return CUDA_SUCCESS;
}
static inline CUresult sim_leave(enum sim_symbol symbol, CUresult result)
{
    if (atomic_load_explicit(&sim_attention, memory_order_relaxed) &
        (SIM_ATTEND_LOG | SIM_ATTEND_ERRORS | SIM_ATTEND_LATE))
        return sim_leave_slow(symbol, result);
    return result;
}
CUresult sim_fault(enum sim_symbol symbol);
void sim_fault_read_environment(void);
/* Waits where the thread is to be late or stuck, before what the call does or behind it (late.c).
 */
void sim_late(enum sim_symbol symbol, bool behind);
void sim_late_read_environment(void);
void sim_log_call(enum sim_symbol symbol, CUresult result);
/* Tells the callbacks of cuLogsRegisterCallback that a call failed (error_log.c). */
void sim_error_log(enum sim_symbol symbol, CUresult result);
const char *sim_error_name(CUresult error);
void sim_log_exec(uint64_t stream, const char *kind, const char *details);
bool sim_log_on(void);
void sim_log_write_file(void);
__attribute__((format(printf, 1, 2))) void sim_misuse(const char *format, ...);
uint64_t sim_now_ns(void);
/* Between look number `n` (from 0) for something that another thread does and the next one: gives
 * the processor away, and sleeps from the 64th on, so that long waits cost nothing. */
void sim_look_later(unsigned int n);
int sim_symbol_find(const char *name);

/* ---- objects (object.c) -------------------------------------------------------------------------
 */

enum sim_kind {
    SIM_CONTEXT = 1,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_LIBRARY,
    SIM_FUNCTION,
    SIM_KERNEL,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_POOL,
    SIM_PHYSICAL,
    SIM_EXTERNAL_MEMORY,
    SIM_SEMAPHORE,
    SIM_RESOURCE,
    SIM_ALLOCATION,
    SIM_GREEN,
    SIM_DESCRIPTOR,
    SIM_KIND_COUNT
};
struct sim_object {
    _Atomic uint32_t state;  /* kind | SIM_LIVE, or kind alone once destroyed */
    struct sim_object *next; /* destroyed objects of one kind */
    struct sim_object *all;  /* every object, so that leak checkers see them as reachable */
    _Atomic uint32_t users;  /* calls that work with it now */
};
#define SIM_LIVE 0x51a00000u
void *sim_object_new(enum sim_kind kind, size_t size);
/* Under SIMCUDA_HANDLES=reuse: the object destroyed last, live again with its contents; else NULL.
 */
void *sim_object_take(enum sim_kind kind);
void sim_object_destroy(void *object, enum sim_kind kind);
/* A live object is worked with until the end of the block. That it is destroyed meanwhile is
 * misuse; so is, with `alone`, a second call that works with it (of graphs: "not internally
 * synchronized", CUDA Driver API, graph management). */
#define SIM_USES(object, alone)                                                                    \
    struct sim_object *used __attribute__((cleanup(sim_unuse), unused)) = sim_use(object, alone)
struct sim_object *sim_use(void *object, bool alone);
void sim_unuse(struct sim_object **object);
/* Whether a handle names a live object of that kind. A destroyed one is reported as misuse. */
bool sim_object_is(const void *handle, enum sim_kind kind);
void sim_object_count(enum sim_kind kind, int delta);

/* ---- memory (memtable.c) ------------------------------------------------------------------------
 */

enum sim_memory { SIM_MEM_DEVICE = 1, SIM_MEM_HOST, SIM_MEM_MANAGED, SIM_MEM_REGISTERED };
/* Which call gives it back: cuMemFree and the like, cuIpcCloseMemHandle, or the graphics resource
 * that it belongs to. */
enum sim_owner { SIM_OWNER_PROGRAM, SIM_OWNER_IPC, SIM_OWNER_RESOURCE };
struct sim_context;
struct sim_allocation {
    uintptr_t base;
    size_t size;
    enum sim_memory memory;
    unsigned int flags;
    uintptr_t device_address; /* where kernels find it, if elsewhere: write-combined memory */
    uint64_t id;
    struct sim_context *ctx;
    int device;
    bool no_context; /* the driver names none: of a pool, or mapped by the program (vmm.c) */
    bool dying;      /* an asynchronous free is on its way */
    bool syncs;      /* calls of no stream wait (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) */
    unsigned int launches;
    enum sim_owner owner;
    bool hidden;                       /* there, but nobody may touch it */
    uintptr_t mapping, mapping_size;   /* whole pages of somebody else's memory, or 0 */
    uintptr_t reserved, reserved_size; /* the addresses that the program has reserved and mapped
                                          this into, or 0 */
    CUmemAccess_flags access;          /* what its device may do with it */
};
CUresult sim_mem_new(struct sim_context *ctx, enum sim_memory memory, size_t size,
                     unsigned int flags, uintptr_t *out);
CUresult sim_mem_register(struct sim_context *ctx, uintptr_t base, size_t size, unsigned int flags);
/* `bytes` from `offset` of a file, as device memory. */
CUresult sim_mem_map(struct sim_context *ctx, int fd, uint64_t offset, size_t bytes,
                     enum sim_owner owner, uintptr_t *out);
/* Maps memory of the host once more, for kernels, until it is given back. */
CUresult sim_mem_map_twice(struct sim_context *ctx, uintptr_t base, size_t bytes);
/* The file that device memory lies in, and where in it; -1 where other processes cannot have it. */
int sim_mem_file(uintptr_t base, uint64_t *offset);
/* All of a file as memory of a device, at an address that was reserved for it. */
CUresult sim_mem_map_at(struct sim_context *ctx, enum sim_memory memory, int fd, int device,
                        uintptr_t address, size_t bytes, uintptr_t reserved, size_t reserved_size);
/* Takes one such mapping away, and gives access to it. False where there is none. */
bool sim_mem_unmap_at(uintptr_t address, size_t bytes);
bool sim_mem_give_access(uintptr_t address, CUmemAccess_flags access, size_t *bytes);
void sim_mem_of_pool(uintptr_t base);
/* Gives back what the program owns. */
CUresult sim_mem_release(uintptr_t base, enum sim_memory memory);
/* Gives back what another owns. */
void sim_mem_disown(uintptr_t base);
void sim_mem_give_to(uintptr_t base, enum sim_owner owner);
void sim_mem_hide(uintptr_t base, bool hidden);
/* A graph that allocates it is launched; a graph frees it. Its place stays taken. */
void sim_mem_graph_takes(uintptr_t base);
void sim_mem_graph_frees(uintptr_t base);
void sim_mem_release_context(struct sim_context *ctx);
bool sim_mem_find(uintptr_t address, struct sim_allocation *out);
/* Whether all of it is there and may be read; or may be used in that way. */
bool sim_mem_covers(uintptr_t address, size_t bytes);
bool sim_mem_may(uintptr_t address, size_t bytes, CUmemAccess_flags access);
bool sim_mem_mark_dying(uintptr_t base);
void sim_mem_set_syncs(uintptr_t base, bool syncs);
/* Whether a fill or copy by a call of no stream waits for the GPU there. */
bool sim_mem_syncs(uintptr_t address);
size_t sim_mem_used(int device);
/* What an executable graph takes of its context's device, and gives back. The end of the context
 * gives back what is left. */
CUresult sim_mem_take(struct sim_context *ctx, size_t bytes);
void sim_mem_give(struct sim_context *ctx, size_t bytes);

/* ---- operations
 * ----------------------------------------------------------------------------------- */

struct sim_stream;
struct sim_context;
struct sim_event;
struct sim_semaphore;
struct sim_resource;
struct sim_image;
struct sim_graph;
struct sim_code { /* a registered kernel */
    struct sim_code *next;
    char name[96];
    cuSimKernelFn fn;
    unsigned int flags;
    unsigned int nparams;
    size_t bytes; /* of the packed arguments */
    size_t *offsets;
    size_t *sizes;
};
struct sim_args {
    _Atomic unsigned int refs;
    size_t size;
    unsigned char bytes[] __attribute__((aligned(16)));
};
enum sim_op_kind {
    SIM_OP_EMPTY,
    SIM_OP_KERNEL,
    SIM_OP_COPY,
    SIM_OP_MEMSET,
    SIM_OP_HOST,
    SIM_OP_RECORD,
    SIM_OP_WAIT,
    SIM_OP_MEMOP,
    SIM_OP_FREE,
    SIM_OP_ALLOC,
    SIM_OP_CHILD,
    SIM_OP_SIGNAL,
    SIM_OP_AWAIT,
    SIM_OP_MAP,
    SIM_OP_UNMAP,
    SIM_OP_IMAGE
};
struct sim_launch {
    void *handle; /* the CUfunction or CUkernel that was launched */
    const struct sim_code *code;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared_bytes;
    struct sim_args *args;
    int cooperative;
    int priority;
};
struct sim_copy {
    uintptr_t dst;
    uintptr_t src;
    size_t width;
    size_t height;
    size_t depth;
    size_t dst_pitch, dst_slice;
    size_t src_pitch, src_slice;
    struct sim_args *staged; /* copied pageable source, where there is one */
    bool host;               /* one side is plain host memory */
};
struct sim_memset {
    uintptr_t dst;
    size_t pitch;
    unsigned int value;
    unsigned int elem_size;
    size_t width;
    size_t height;
};
struct sim_memop {
    uintptr_t address;
    uint64_t value;
    unsigned int flags;
    bool wide;
    bool wait;
};
struct sim_op {
    enum sim_op_kind kind;
    union {
        struct sim_launch launch;
        struct sim_copy copy;
        struct sim_memset fill;
        struct {
            CUhostFn fn;
            void *data;
            CUstreamCallback callback; /* set for cuStreamAddCallback, fn otherwise */
            CUstream stream;
        } host;
        struct {
            struct sim_event *event;
            uint64_t ticket;
        } record;
        struct sim_memop memop;
        struct {
            uintptr_t address;
            size_t bytes;
        } memory;
        struct {
            struct sim_semaphore *semaphore;
            uint64_t value;
        } fence;
        struct sim_resource *resource;
        struct sim_graph *child;
        struct sim_image *image;
    };
};
/* Owned references inside an op: take another set, give them up. */
void sim_op_hold(struct sim_op *op);
void sim_op_drop(struct sim_op *op);
bool sim_op_may_block(const struct sim_op *op);
void sim_op_run(const struct sim_op *op, struct sim_stream *stream);
struct sim_args *sim_args_new(size_t size);

struct sim_exec;
/* ---- contexts, streams, events
 * -------------------------------------------------------------------- */

struct sim_context {
    struct sim_object object;
    int device;
    _Atomic unsigned int flags;
    unsigned int api_version;
    uint64_t id;
    bool primary;
    atomic_int attached; /* cuCtxAttach, less cuCtxDetach */
    _Atomic int error;   /* sticky */
    struct sim_stream *legacy;
    pthread_mutex_t lock; /* the list of streams */
    struct sim_stream *streams;
    _Atomic int blocking_captures;
    size_t limits[CU_LIMIT_MAX];
    CUfunc_cache cache;
    unsigned int peers;       /* devices enabled, bit set */
    struct sim_context *root; /* itself; of a green one the primary, whose memory, code and events
                                 it shares */
    struct sim_green *green;  /* that it stands for; NULL: none */
    struct sim_context *greens, *next_green; /* of a primary one; under its lock */
    /* cuCtxRecordEvent and cuCtxWaitEvent go into streams of their own, made at the first call */
    _Atomic(struct sim_stream *) records, waits;
    size_t graph_bytes;          /* memory that executable graphs took (memtable.c) */
    _Atomic unsigned int graphs; /* executable ones that are alive; of the root */
};
struct sim_stream {
    struct sim_object object;
    struct sim_context *ctx;
    uint64_t id;
    unsigned int flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    bool legacy;
    bool ghost;              /* destroyed, in the context's list until its work is done */
    struct sim_stream *next; /* in the context */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sim_work *head, *tail;
    _Atomic uint64_t submitted;
    _Atomic uint64_t completed;
    _Atomic int waiters;
    _Atomic bool asleep; /* the worker waits for `changed` */
    bool worker;
    bool stopping;
    _Atomic uint64_t idle_at; /* SIMCUDA_PACE: when all kernels have ended */
    _Atomic(struct sim_capture *) capture;
    struct sim_node **tips; /* nodes that the next captured op depends on */
    unsigned int tip_count;
};
struct sim_event {
    struct sim_object object;
    struct sim_context *ctx;
    unsigned int flags;
    pthread_mutex_t lock;
    struct sim_stream *stream; /* of the last record; NULL: never recorded */
    uint64_t seq;
    uint64_t ticket;
    uint64_t time_ns;
    struct sim_capture *capture; /* last recorded inside this capture */
    uint64_t capture_id;
    struct sim_node **tips;
    unsigned int tip_count;
    _Atomic(struct sim_shared_event *) shared; /* of an event that other processes may open */
    int shared_fd;
};
struct sim_event *sim_event_new(void); /* without context and flags; NULL: no memory */
/* An event of several processes: records are numbered when they are submitted. */
struct sim_shared_event {
    _Atomic uint64_t recorded;
    _Atomic uint64_t done;
};
/* What a stream does to objects that others share (ipc.c, external.c, graphics.c). */
CUresult sim_shared_event_new(struct sim_event *event);
void sim_shared_event_done(struct sim_shared_event *shared, uint64_t ticket);
void sim_shared_event_wait(struct sim_shared_event *shared, uint64_t ticket);
bool sim_semaphore_run(struct sim_semaphore *semaphore, uint64_t value, bool wait);
void sim_resource_render(struct sim_resource *resource);
uint64_t sim_resource_id(const struct sim_resource *resource);

#define SIM_MAX_DEVICES 16
int sim_device_count(void);
CUresult sim_current(struct sim_context **out); /* with the sticky error */
struct sim_context *sim_current_quiet(void);
/* The primary context of a device, created where it is not there; and given back. */
CUresult sim_primary_retain(CUdevice device, struct sim_context **out);
CUresult sim_primary_release(CUdevice device);
CUresult sim_context_new(int device, unsigned int flags, bool primary, struct sim_context **out);
CUresult sim_context_wait(struct sim_context *ctx);
void sim_green_end_all(struct sim_context *primary);
void sim_context_raise(struct sim_context *ctx, CUresult error);

struct sim_stream *sim_stream_new(struct sim_context *ctx, unsigned int flags, int priority,
                                  bool legacy);
CUresult sim_stream_find(CUstream handle, bool ptsz, struct sim_stream **out);
void sim_stream_stop(struct sim_stream *stream);
/* Puts an op (moved, also on failure) behind everything the stream has; a capturing stream gets a
 * node. `seq` (may be NULL) is what to wait for. */
CUresult sim_submit(struct sim_stream *stream, struct sim_op *op, uint64_t *seq);
CUresult sim_submit_and_wait(struct sim_stream *stream, struct sim_op *op);
/* Waits, under no lock, until the stream's queue has room (SIMCUDA_QUEUE). */
CUresult sim_wait_for_room(struct sim_stream *stream);
/* Where SIMCUDA_WAITS asks for it: waits for all work of the context, and nobody submits meanwhile.
 * The second is for a new executable graph. */
void sim_wait_alone(struct sim_context *ctx);
void sim_wait_for_graph(struct sim_context *ctx);
/* The launch of an executable graph, behind its earlier launches. Called under sim_lock. */
CUresult sim_submit_exec(struct sim_stream *stream, struct sim_op *op, struct sim_exec *exec);
void sim_stream_wait(struct sim_stream *stream, uint64_t seq);
bool sim_stream_done(struct sim_stream *stream);
/* Writes a word that the host and other devices see at once, or in a graph behind the next fence or
 * node that is no kernel, as on a GPU (tests/gpu/order/visible.cu). */
void sim_write_late(unsigned int *word, unsigned int value);
void sim_show_late_writes(void);
/* Such a word must not be written with such writes outstanding: somebody may poll it. */
void sim_word_shows(const void *word);
/* memmove, which writes a word once: glibc's writes a word of 4 or 8 bytes twice, and the second
 * write may come when the program has seen the word and cleared it. */
void sim_move(void *to, const void *from, size_t bytes);
/* The context and stream of the work that this thread executes. */
extern _Thread_local struct sim_stream *sim_running;

/* ---- functions
 * -------------------------------------------------------------------------------------- */

struct sim_function { /* a CUfunction, or a CUkernel: the object's kind tells */
    struct sim_object object;
    const struct sim_code *code;
    struct sim_module *module;
    struct sim_function *next;
    struct sim_function *twin; /* the CUfunction of a CUkernel */
    _Atomic int attributes[CU_FUNC_ATTRIBUTE_MAX];
    struct { /* what a launch of CUDA 3 takes (launch_old.c) */
        unsigned int block[3], shared_bytes;
        size_t bytes;
        unsigned char arguments[256];
    } old;
};
/* Modules that are still loaded go with their context. */
void sim_module_release_context(struct sim_context *ctx);
const struct sim_code *sim_code_find(const char *name);
/* The export table of this id (hex), or NULL. */
const void *sim_export_table(const char *uuid);
void sim_code_builtin(void);
/* A handle as launches take it: either kind. */
struct sim_function *sim_function_of(const void *handle);
CUresult sim_launch_prepare(struct sim_launch *out, const void *handle, const unsigned int grid[3],
                            const unsigned int block[3], unsigned int shared_bytes, void **params,
                            void **extra);

/* ---- captures and graphs ------------------------------------------------------------------------
 */

struct sim_capture {
    struct sim_capture *next; /* every capture that is not ended */
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    bool into_given_graph;
    bool again;          /* records the nodes of its graph once more */
    unsigned int redone; /* so many of them so far */
    struct sim_graph *graph;
    struct sim_stream *origin;
    struct sim_stream **streams; /* all that take part, the origin first */
    unsigned int stream_count;
};
struct sim_node {
    struct sim_object object;
    struct sim_graph *graph;
    unsigned int index; /* in graph->nodes */
    struct sim_op op;
    struct sim_node **from;
    unsigned int from_count;
    struct sim_node *original; /* of a clone */
    void **shown;              /* what GetParams answers as kernelParams */
};
struct sim_graph {
    struct sim_object object;
    uint64_t id;
    struct sim_node **nodes;
    unsigned int count;
    bool child; /* owned by a child-graph node */
};
struct sim_step {
    struct sim_op op;
    bool enabled;
};
struct sim_image { /* what one launch of an executable graph runs; copied when changed while in use
                    */
    _Atomic unsigned int refs;
    unsigned int count;
    bool node_priorities; /* its kernels do not have the priority of the stream */
    struct sim_step steps[];
};
struct sim_exec {
    struct sim_object object;
    struct sim_context *ctx;
    cuuint64_t flags;
    size_t bytes; /* of device memory */
    struct sim_image *image;
    struct sim_node **nodes; /* of each step, in launch order */
    struct sim_stream *last_stream;
    uint64_t last_seq;
};

/* A capture that records the nodes of a graph again; NULL: into a graph of its own. */
CUresult sim_capture_again(CUstream stream, bool ptsz, CUstreamCaptureMode mode,
                           struct sim_graph *graph);
CUresult sim_capture_add(struct sim_stream *stream, struct sim_op *op);
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_event_record(CUevent event, struct sim_stream *stream, unsigned int flags);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);
/* A call that captures forbid on this stream: invalidates its capture. */
CUresult sim_capture_refuse(struct sim_stream *stream);
/* A call that is unsafe while a capture is going on (cuThreadExchangeStreamCaptureMode). */
CUresult sim_capture_unsafe(void);
/* A call that stands for all streams of the context: invalidates what they capture, and what the
 * event (NULL: none) is of. */
CUresult sim_capture_refuse_in(const struct sim_context *ctx, struct sim_event *event);
/* Use of the legacy stream while a blocking stream of the context captures. */
CUresult sim_capture_implicit(struct sim_context *ctx);
extern _Atomic int sim_captures;
void sim_capture_drop(struct sim_stream *stream);

struct sim_graph *sim_graph_new(void);
CUresult sim_graph_add(struct sim_graph *graph, CUgraphNode const *from, size_t count,
                       struct sim_op *op, struct sim_node **out);
CUresult sim_graph_clone(struct sim_graph *graph, struct sim_graph **out);
void sim_graph_free(struct sim_graph *graph);
void sim_tips_set(struct sim_node ***tips, unsigned int *count, struct sim_node *const *nodes,
                  unsigned int n);
void sim_image_drop(struct sim_image *image);
/* Order of execution: out[i] is a node, each after those it depends on. False where there is a
 * cycle. */
bool sim_graph_sort(struct sim_graph *graph, struct sim_node **out);
CUresult sim_op_from_kernel_params(struct sim_op *op, const CUDA_KERNEL_NODE_PARAMS *params);
CUresult sim_op_from_memset_params(struct sim_op *op, const CUDA_MEMSET_NODE_PARAMS *params);
CUresult sim_op_from_copy_params(struct sim_op *op, const CUDA_MEMCPY3D *params);
