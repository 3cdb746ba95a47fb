/* execute_ops.c - the other kinds of ops, and which function runs which. */
#include "tests/fuzz/execute_op.h"
#include "tests/fuzz/model.h"
#include <unistd.h>

/* ---- captures and graphs ---------------------------------------------------------------- */

static void node_params(const struct fz_run *r, int module, int graph, uint64_t *x, uint64_t *k,
                        void **params, CUDA_KERNEL_NODE_PARAMS *p)
{
    *x = r->h->buf[r->h->graph[graph].buf].device;
    params[0] = x;
    params[1] = k;
    *p = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .kernelParams = params};
    if (r->h->module[module].library) {
        p->kern = (CUkernel)r->h->module[module].function[FZ_MIX];
        p->ctx = r->h->ctx;
    } else {
        p->func = r->h->module[module].function[FZ_MIX];
    }
}

static CUgraph build_graph(const struct fz_run *r, int graph, int module, unsigned int nodes, int k,
                           CUgraphNode *node)
{
    CUgraph g = NULL;
    CUgraphNode first = NULL, last;
    int waits = r->h->graph[graph].waits, records = r->h->graph[graph].records;
    check(r, cuGraphCreate(&g, 0));
    if (waits)
        check(r, cuGraphAddEventWaitNode(&first, g, NULL, 0, r->h->event[waits - 1]));
    for (unsigned int i = 0; i < nodes; i++) {
        uint64_t x, argument = (uint64_t)k + i;
        void *params[2];
        CUDA_KERNEL_NODE_PARAMS p;
        node_params(r, module, graph, &x, &argument, params, &p);
        check(r, cuGraphAddKernelNode_v2(&node[i], g, i ? &node[i - 1] : &first, i || waits, &p));
    }
    if (records)
        check(r,
              cuGraphAddEventRecordNode(&last, g, &node[nodes - 1], 1, r->h->event[records - 1]));
    return g;
}

/* The event is the op's own: one that a capture has recorded is of no use outside. */
static void run_tie(const struct fz_run *r, int from, int to)
{
    CUevent event = NULL;
    check(r, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    check(r, ON(from, cuEventRecord, event, handle(r, from)));
    check(r, ON(to, cuStreamWaitEvent, handle(r, to), event, 0));
    check(r, cuEventDestroy_v2(event));
}

static void run_build(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* graph module nodes buf k waits records */
    r->h->graph[a[0]].buf = a[3];
    r->h->graph[a[0]].waits = a[5];
    r->h->graph[a[0]].records = a[6];
    r->h->graph[a[0]].nodes = (unsigned int)a[2];
    r->h->graph[a[0]].graph =
        build_graph(r, a[0], a[1], (unsigned int)a[2], a[4], r->h->graph[a[0]].node);
}

static void run_gupdate(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* graph module node k how */
    if (!a[4]) {
        uint64_t x, k = (uint64_t)a[3];
        void *params[2];
        CUDA_KERNEL_NODE_PARAMS p;
        node_params(r, a[1], a[0], &x, &k, params, &p);
        check(r, cuGraphExecKernelNodeSetParams_v2(r->h->graph[a[0]].exec,
                                                   r->h->graph[a[0]].node[a[2]], &p));
        return;
    }
    CUgraphNode node[FZ_MAX_NODES];
    CUgraphExecUpdateResultInfo info;
    CUgraph other = build_graph(r, a[0], a[1], r->h->graph[a[0]].nodes, a[3], node);
    check(r, cuGraphExecUpdate_v2(r->h->graph[a[0]].exec, other, &info));
    check(r, cuGraphDestroy(other));
}

static void run_ungraph(const struct fz_run *r)
{
    int g = r->op->a[0];
    if (r->h->graph[g].exec)
        check(r, cuGraphExecDestroy(r->h->graph[g].exec));
    check(r, cuGraphDestroy(r->h->graph[g].graph));
    memset(&r->h->graph[g], 0, sizeof r->h->graph[g]);
}

/* ---- modules, streams, the rest --------------------------------------------------------- */

static void run_load(const struct fz_run *r)
{
    int slot = r->op->a[0];
    if (r->op->a[1]) {
        check(r, cuLibraryLoadData(&r->h->module[slot].library, fz_image(), NULL, NULL, 0, NULL,
                                   NULL, 0));
        for (int i = 0; i < FZ_ALL_KERNELS; i++)
            check(r, cuLibraryGetKernel((CUkernel *)&r->h->module[slot].function[i],
                                        r->h->module[slot].library, fz_kernel_names[i]));
        return;
    }
    check(r, cuModuleLoadData(&r->h->module[slot].module, fz_image()));
    for (int i = 0; i < FZ_ALL_KERNELS; i++)
        check(r, cuModuleGetFunction(&r->h->module[slot].function[i], r->h->module[slot].module,
                                     fz_kernel_names[i]));
}

static void run_unload(const struct fz_run *r)
{
    int slot = r->op->a[0];
    if (r->h->module[slot].library)
        check(r, cuLibraryUnload(r->h->module[slot].library));
    else
        check(r, cuModuleUnload(r->h->module[slot].module));
    memset(&r->h->module[slot], 0, sizeof r->h->module[slot]);
}

void fz_make_stream(const struct fz_run *r, int slot, int kind)
{
    unsigned int flags = kind & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    if (kind & 2)
        check(r, cuStreamCreateWithPriority(&r->h->stream[slot], flags, -2));
    else
        check(r, cuStreamCreate(&r->h->stream[slot], flags));
    unsigned long long id = 0;
    if (!r->h->stream[slot]) /* refused: the id of NULL is that of the legacy stream */
        return;
    check(r, cuStreamGetId(r->h->stream[slot], &id));
    fz_note_stream(r->h, id, slot, -1);
}

void fz_end_stream(const struct fz_run *r, int slot)
{
    check(r, cuStreamDestroy_v2(r->h->stream[slot]));
    r->h->stream[slot] = NULL;
}

static void run_misc(const struct fz_run *r)
{
    CUfunction f = r->h->module[r->op->a[1]].function[FZ_MIX];
    bool is_kernel = r->h->module[r->op->a[1]].library != NULL;
    CUcontext ctx;
    CUdevice device;
    int value;
    size_t free_bytes, total;
    switch (r->op->a[0]) {
    case 0:
        check(r, cuCtxGetCurrent(&ctx));
        break;
    case 1:
        if (!is_kernel)
            check(r, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096));
        break;
    case 2:
        check(r, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
        break;
    case 3:
        if (!is_kernel)
            check(r, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        break;
    case 4:
        check(r, cuCtxGetDevice(&device));
        break;
    case 5:
        check(r, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
        break;
    case 6:
        if (!is_kernel)
            check(r, cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED));
        break;
    case 7:
        check(r, cuMemGetInfo_v2(&free_bytes, &total));
        break;
    case 8:
        check(r, cuProfilerStop());
        break;
    case 9:
        check(r, push(r->h->ctx));
        check(r, cuCtxPopCurrent_v2(&ctx));
        break;
    case 10:
        check(r, cuCtxSetCurrent(r->h->ctx));
        break;
    default:
        check(r, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        break;
    }
}

static void make_away(const struct fz_run *r)
{
    CUdevice device;
    unsigned long long id;
    if (r->h->away.module)
        return;
    check(r, cuDeviceGet(&device, 1));
    check(r, cuDevicePrimaryCtxRetain(&r->h->away.ctx, device));
    check(r, push(r->h->away.ctx));
    check(r, cuModuleLoadData(&r->h->away.module, fz_image()));
    check(r, cuModuleGetFunction(&r->h->away.mix, r->h->away.module, "fz_mix"));
    check(r, cuStreamCreate(&r->h->away.stream, CU_STREAM_DEFAULT));
    check(r, cuMemAlloc_v2(&r->h->away.x, 64));
    check(r, cuMemsetD8_v2(r->h->away.x, 0, 64));
    check(r, cuStreamGetId(r->h->away.stream, &id));
    fz_note_stream(r->h, id, -1, -1);
    check(r, cuStreamGetId(NULL, &id));
    fz_note_stream(r->h, id, -2, -1);
    check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
}

static void run_away(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* how n k */
    make_away(r);
    if (a[0] != 2)
        check(r, push(r->h->away.ctx));
    for (int i = 0; i < a[1]; i++) {
        uint64_t x = r->h->away.x, k = (uint64_t)(a[2] + i);
        check(r, cuLaunchKernel(r->h->away.mix, 1, 1, 1, 1, 1, 1, 0,
                                a[0] ? r->h->away.stream : NULL, (void *[]){&x, &k}, NULL));
    }
    if (a[0] != 2)
        check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
}

static void run_awayread(const struct fz_run *r)
{
    uint64_t value = 0;
    check(r, push(r->h->away.ctx));
    check(r, cuMemcpyDtoH_v2(&value, r->h->away.x, 8));
    check(r, cuCtxPopCurrent_v2(&r->h->away.ctx));
    observe(r, &value, 8);
}

static void run_awayend(const struct fz_run *r)
{
    if (r->op->a[0])
        check(r, cuDevicePrimaryCtxReset_v2(1));
    check(r, cuDevicePrimaryCtxRelease_v2(1));
    memset(&r->h->away, 0, sizeof r->h->away);
}

static void run_retain(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* device n */
    CUcontext ctx;
    for (int i = 0; i < a[1]; i++) {
        check(r, cuDevicePrimaryCtxRetain(&ctx, a[0]));
        check(r, cuDevicePrimaryCtxRelease_v2(a[0]));
    }
}

static void begin_green(const struct fz_run *r, CUgreenCtx *green, CUstream *s)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    unsigned int groups = 1;
    check(r, cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    check(r, cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
    check(r, cuDevResourceGenerateDesc(&desc, &part, 1));
    check(r, cuGreenCtxCreate(green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    check(r, cuGreenCtxStreamCreate(s, *green, CU_STREAM_NON_BLOCKING, 0));
}

/* It is current, but for a green one. */
static void begin_context(const struct fz_run *r, int how, CUcontext *ctx, CUgreenCtx *green,
                          CUstream *s)
{
    if (how == 3) {
        begin_green(r, green, s);
        return;
    }
    if (how) {
        check(r, cuDevicePrimaryCtxRetain(ctx, 1));
        check(r, push(*ctx));
    } else {
        check(r, cuCtxCreate_v4(ctx, NULL, 0, 0));
    }
    check(r, cuStreamCreate(s, CU_STREAM_NON_BLOCKING));
}

static void end_context(const struct fz_run *r, int how, CUcontext ctx, CUgreenCtx green)
{
    if (how == 0)
        check(r, cuCtxDestroy_v2(ctx));
    if (how == 2)
        check(r, cuDevicePrimaryCtxReset_v2(1));
    if (how == 1 || how == 2) {
        check(r, cuDevicePrimaryCtxRelease_v2(1));
        check(r, cuCtxPopCurrent_v2(&ctx));
    }
    if (how == 3)
        check(r, cuGreenCtxDestroy(green));
    check(r, cuCtxSetCurrent(r->h->ctx));
}

static void run_context(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* buf rounds n k how */
    CUcontext ctx = NULL;
    CUgreenCtx green = NULL;
    CUmodule module;
    CUfunction mix;
    CUstream s;
    unsigned long long id;
    /* whether the work that a context leaves behind is still done, no real driver promises */
    uint64_t x = address(r, a[0], 0), last = fz_limits.real ? (uintptr_t)r->h->scratch : x;
    begin_context(r, a[4], &ctx, &green, &s);
    check(r, cuModuleLoadData(&module, fz_image()));
    check(r, cuModuleGetFunction(&mix, module, "fz_mix"));
    check(r, cuStreamGetId(s, &id));
    fz_note_stream(r->h, id, -3, r->op->thread);
    for (int round = 0; round <= a[1]; round++) {
        for (int i = 0; i < (round == a[1] ? a[2] / 2 : a[2]); i++) {
            uint64_t k = (uint64_t)(a[3] + i);
            check(r, cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, s,
                                    (void *[]){round == a[1] ? &last : &x, &k}, NULL));
        }
        if (round < a[1])
            check(r, cuStreamSynchronize(s));
    }
    end_context(r, a[4], ctx, green);
    if (a[4] == 3) /* the first device has it */
        check(r, cuModuleUnload(module));
}

/* A sequence that is known by then, in the middle of which a kernel writes where there is nothing.
 * When the launches behind it learn of it is open; whoever waits must. */
static void run_trap(const struct fz_run *r)
{
    const int32_t *a = r->op->a; /* stream buf module n how */
    struct fz_result open = {0};
    const struct fz_run rest = {r->h, r->op, &open};
    CUstream s = handle(r, a[0]);
    CUevent event = NULL;
    uint64_t word = 0;
    enum { ROUNDS = 5 };
    check(r, cuCtxSynchronize());
    check(r, cuEventCreate(&event, 0));
    for (int round = 0; round <= ROUNDS; round++) {
        for (int i = 0; i < a[3]; i++) {
            bool last = round == ROUNDS, traps = last && i == a[3] / 2;
            struct fz_arguments g;
            g.x = traps ? 64 : address(r, a[1], 0);
            g.k = (uint64_t)i;
            fz_make_arguments(&g, FZ_MIX);
            fz_launch(last && i > a[3] / 2 ? &rest : r, a[0], r->h->module[a[2]].function[FZ_MIX],
                      FZ_PARAMS, 0, &g);
        }
        if (round < ROUNDS)
            check(r, ON(a[0], cuStreamSynchronize, s));
    }
    switch (a[4]) {
    case 0:
        check(r, ON(a[0], cuStreamSynchronize, s));
        break;
    case 1:
        check(r, cuCtxSynchronize());
        break;
    case 2:
        fz_poll_until_done(r, FZ_SYNC_STREAM, a[0]);
        break;
    case 3:
        check(r, ON(a[0], cuMemcpyDtoHAsync_v2, &word, address(r, a[1], 0), 8, s));
        check(r, ON(a[0], cuStreamSynchronize, s));
        break;
    default:
        check(r, ON(a[0], cuEventRecord, event, s));
        check(r, cuEventSynchronize(event));
        break;
    }
    cuEventDestroy_v2(event);
}

void fz_run_op(struct fz_handles *h, const struct fz_op *op, struct fz_result *result)
{
    const struct fz_run run = {h, op, result}, *r = &run;
    const int32_t *a = op->a;
    switch ((enum fz_kind)op->kind) {
    case FZ_stream:
        fz_make_stream(r, a[0], a[1]);
        break;
    case FZ_unstream:
        fz_end_stream(r, a[0]);
        break;
    case FZ_event:
        check(r, cuEventCreate(&h->event[a[0]], a[1] ? CU_EVENT_DISABLE_TIMING : 0));
        break;
    case FZ_unevent:
        check(r, cuEventDestroy_v2(h->event[a[0]]));
        h->event[a[0]] = NULL;
        break;
    case FZ_alloc:
        fz_run_alloc(r);
        break;
    case FZ_free:
        fz_run_free(r);
        break;
    case FZ_load:
        run_load(r);
        break;
    case FZ_unload:
        run_unload(r);
        break;
    case FZ_launch:
        fz_run_launch(r);
        break;
    case FZ_slow:
        fz_run_slow(r);
        break;
    case FZ_bad:
        fz_run_bad(r);
        break;
    case FZ_stale:
        fz_run_stale(r);
        break;
    case FZ_fill:
        fz_run_fill(r);
        break;
    case FZ_copy:
        fz_run_copy(r);
        break;
    case FZ_upload:
        fz_run_upload(r);
        break;
    case FZ_read:
        fz_run_read(r);
        break;
    case FZ_peek:
        if (h->buf[a[0]].host)
            observe(r, h->buf[a[0]].host, h->buf[a[0]].words * 8);
        break;
    case FZ_poke:
        for (uint32_t i = 0; h->buf[a[0]].host && i < h->buf[a[0]].words; i++)
            ((uint64_t *)h->buf[a[0]].host)[i] = (uint64_t)a[1] + i;
        break;
    case FZ_sync:
        fz_run_sync(r);
        break;
    case FZ_query:
        fz_run_query(r);
        break;
    case FZ_record:
        check(r, a[2] ? ON(a[1], cuEventRecordWithFlags, h->event[a[0]], handle(r, a[1]),
                           a[2] == 2 ? CU_EVENT_RECORD_EXTERNAL : 0)
                      : ON(a[1], cuEventRecord, h->event[a[0]], handle(r, a[1])));
        break;
    case FZ_wait:
        check(r, ON(a[0], cuStreamWaitEvent, handle(r, a[0]), h->event[a[1]],
                    a[2] == 2 ? CU_EVENT_WAIT_EXTERNAL : 0));
        break;
    case FZ_ctxrecord:
        check(r, cuCtxRecordEvent(h->ctx, h->event[a[0]]));
        break;
    case FZ_ctxwait:
        check(r, cuCtxWaitEvent(h->ctx, h->event[a[0]]));
        break;
    case FZ_fire:
        fz_run_fire(r);
        break;
    case FZ_host:
        fz_run_host(r);
        break;
    case FZ_flag:
        fz_run_flag(r);
        break;
    case FZ_gate:
        fz_run_gate(r);
        break;
    case FZ_pause:
        usleep((unsigned int)a[0]);
        break;
    case FZ_begin:
        check(r, cuStreamBeginCapture_v2(h->stream[a[0]], (CUstreamCaptureMode)a[1]));
        break;
    case FZ_fork:
        run_tie(r, a[0], a[1]);
        break;
    case FZ_merge:
        run_tie(r, a[1], a[0]);
        break;
    case FZ_end:
        check(r, cuStreamEndCapture(h->stream[a[0]], &h->graph[a[1]].graph));
        break;
    case FZ_build:
        run_build(r);
        break;
    case FZ_inst:
        check(r, cuGraphInstantiateWithFlags(&h->graph[a[0]].exec, h->graph[a[0]].graph, 0));
        break;
    case FZ_glaunch:
        check(r, ON(a[1], cuGraphLaunch, h->graph[a[0]].exec, handle(r, a[1])));
        break;
    case FZ_gupdate:
        run_gupdate(r);
        break;
    case FZ_ungraph:
        run_ungraph(r);
        break;
    case FZ_misc:
        run_misc(r);
        break;
    case FZ_away:
        run_away(r);
        break;
    case FZ_awayread:
        run_awayread(r);
        break;
    case FZ_awayend:
        run_awayend(r);
        break;
    case FZ_context:
        run_context(r);
        break;
    case FZ_retain:
        run_retain(r);
        break;
    case FZ_jam:
        fz_run_jam(r);
        break;
    case FZ_leave:
        fz_run_leave(r);
        break;
    case FZ_ctxgate:
        fz_run_ctxgate(r);
        break;
    case FZ_trap:
        run_trap(r);
        break;
    case FZ_barrier:
    case FZ_KINDS:
        break;
    }
}
