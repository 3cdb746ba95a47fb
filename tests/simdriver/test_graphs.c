/* test_graphs.c - explicit graphs, executable graphs and their updates. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static CUmodule module;
static CUfunction hash, poll;
static CUdeviceptr x;
static CUstream s;

static CUDA_KERNEL_NODE_PARAMS hash_params(void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = hash,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUgraphNode add_hash(CUgraph g, CUgraphNode after, uint64_t k)
{
    CUgraphNode n;
    CUDA_KERNEL_NODE_PARAMS p = hash_params((void *[]){&x, &k});
    CHECK(cuGraphAddKernelNode_v2(&n, g, after ? &after : NULL, after ? 1 : 0, &p));
    return n;
}

static CUgraphExec instantiate(CUgraph g)
{
    CUgraphExec e;
    CHECK(cuGraphInstantiateWithFlags(&e, g, 0));
    CHECK(cuGraphUpload(e, s));
    return e;
}

static void zero(void)
{
    CHECK(cuMemsetD8_v2(x, 0, 8));
    CHECK(cuCtxSynchronize());
}

static uint64_t result(void)
{
    CHECK(cuStreamSynchronize(s));
    return ag_prog_read64(x);
}

static void edges_decide_the_order(void **state)
{
    (void)state;
    CUgraph g;
    CHECK(cuGraphCreate(&g, 0));
    CUgraphNode last = add_hash(g, NULL, 3), first = add_hash(g, NULL, 1);
    CUgraphNode middle = add_hash(g, first, 2);
    CHECK(cuGraphAddDependencies(g, &middle, &last, 1));
    EXPECT(cuGraphAddDependencies(g, &middle, &last, 1), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode roots[3], from[4], to[4];
    size_t n = 3;
    CHECK(cuGraphGetRootNodes(g, roots, &n));
    assert_int_equal(n, 1);
    assert_ptr_equal(roots[0], first);
    n = 4;
    CHECK(cuGraphGetEdges(g, from, to, &n));
    assert_int_equal(n, 2);
    CUgraphExec e = instantiate(g);
    zero();
    CHECK(cuGraphLaunch(e, s));
    assert_int_equal(result(), (1 * 31 + 2) * 31 + 3);
    CHECK(cuGraphAddDependencies(g, &last, &first, 1));
    CUgraphExec bad;
    EXPECT(cuGraphInstantiateWithFlags(&bad, g, 0), CUDA_ERROR_INVALID_VALUE); /* a cycle */
    CHECK(cuGraphExecDestroy(e));
    EXPECT(cuGraphLaunch(e, s), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroy(g));
    EXPECT(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
}

static void set_params_affects_later_launches(void **state)
{
    (void)state;
    CUgraph g;
    unsigned int *flag, one = 1;
    void *none = NULL;
    CHECK(cuMemHostAlloc((void **)&flag, 4, 0));
    *flag = 0;
    CHECK(cuGraphCreate(&g, 0));
    CUgraphNode a = add_hash(g, NULL, 1), b = add_hash(g, a, 2);
    CUgraphExec e = instantiate(g);
    zero();
    CHECK(ag_prog_launch(poll, s, (void *[]){&flag, &one, &none}));
    CHECK(cuGraphLaunch(e, s)); /* on its way while the exec is changed */
    uint64_t k = 9;
    CUDA_KERNEL_NODE_PARAMS p = hash_params((void *[]){&x, &k});
    CHECK(cuGraphExecKernelNodeSetParams_v2(e, b, &p));
    CHECK(cuGraphLaunch(e, s));
    CHECK(cuGraphNodeSetEnabled(e, a, 0));
    CHECK(cuGraphLaunch(e, s));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    uint64_t expected = ((1 * 31 + 2) * 31 + 1) * 31 + 9;
    assert_int_equal(result(), expected * 31 + 9);

    p.gridDimX = 0;
    EXPECT(cuGraphExecKernelNodeSetParams_v2(e, b, &p), CUDA_ERROR_INVALID_VALUE);
    CUgraph stranger;
    CHECK(cuGraphCreate(&stranger, 0));
    p.gridDimX = 1;
    EXPECT(cuGraphExecKernelNodeSetParams_v2(e, add_hash(stranger, NULL, 1), &p),
           CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphDestroy(stranger));
    CHECK(cuGraphDestroy(g));
    EXPECT(cuGraphExecKernelNodeSetParams_v2(e, b, &p), CUDA_ERROR_INVALID_VALUE);
    zero();
    CHECK(cuGraphLaunch(e, s)); /* the exec lives on without its graph */
    assert_int_equal(result(), 9);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuMemFreeHost(flag));
}

static void kernel_handles_go_in_kern(void **state)
{
    (void)state;
    CUlibrary library;
    CUgraph g;
    CUgraphNode n;
    uint64_t k = 4;
    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CUDA_KERNEL_NODE_PARAMS p = hash_params((void *[]){&x, &k}), got;
    p.func = ag_prog_kernel(library, "hash");
    CHECK(cuGraphCreate(&g, 0));
    EXPECT(cuGraphAddKernelNode_v2(&n, g, NULL, 0, &p), CUDA_ERROR_INVALID_HANDLE);
    p.kern = (CUkernel)p.func;
    p.func = NULL;
    CHECK(cuGraphAddKernelNode_v2(&n, g, NULL, 0, &p));
    CHECK(cuGraphKernelNodeGetParams_v2(n, &got));
    assert_ptr_equal(got.kern, p.kern);
    assert_null(got.func);
    assert_int_equal(*(uint64_t *)got.kernelParams[1], 4);
    CUgraphExec e = instantiate(g);
    zero();
    CHECK(cuGraphLaunch(e, s));
    assert_int_equal(result(), 4);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
    CHECK(cuLibraryUnload(library));
}

static void count_call(void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
}

static void other_kinds_of_nodes(void **state)
{
    (void)state;
    CUgraph g, child;
    CUgraphNode set, copy, host, record, sub;
    CUevent event;
    int calls = 0;
    CUdeviceptr y = ag_prog_alloc(8);
    CHECK(cuGraphCreate(&child, 0));
    add_hash(child, NULL, 6);
    CHECK(cuGraphCreate(&g, 0));
    CUDA_MEMSET_NODE_PARAMS m = {.dst = x, .value = 2, .elementSize = 4, .width = 1, .height = 1};
    CHECK(cuGraphAddMemsetNode(&set, g, NULL, 0, &m, NULL));
    CHECK(cuGraphAddChildGraphNode(&sub, g, &set, 1, child));
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = x,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = y,
                       .WidthInBytes = 8,
                       .Height = 1,
                       .Depth = 1};
    CHECK(cuGraphAddMemcpyNode(&copy, g, &sub, 1, &c, NULL));
    CHECK(cuGraphAddHostNode(&host, g, &copy, 1,
                             &(CUDA_HOST_NODE_PARAMS){.fn = count_call, .userData = &calls}));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuGraphAddEventRecordNode(&record, g, &host, 1, event));
    CUgraphExec e = instantiate(g);
    zero();
    CHECK(cuGraphLaunch(e, s));
    CHECK(cuEventSynchronize(event));
    assert_int_equal(calls, 1);
    assert_int_equal(ag_prog_read64(y), 2 * 31 + 6);
    m.value = 3;
    CHECK(cuGraphExecMemsetNodeSetParams(e, set, &m, NULL));
    c.dstDevice = x;
    c.srcDevice = y;
    CHECK(cuGraphExecMemcpyNodeSetParams(e, copy, &c, NULL));
    CHECK(cuGraphLaunch(e, s));
    assert_int_equal(result(), 2 * 31 + 6); /* set, hashed, then overwritten from y */
    CUgraphNodeType type;
    CHECK(cuGraphNodeGetType(record, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
    CHECK(cuGraphDestroy(child));
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuMemFree_v2(y));
}

static void whole_graph_update(void **state)
{
    (void)state;
    CUgraph g, same, longer;
    CUgraphExecUpdateResultInfo info;
    CHECK(cuGraphCreate(&g, 0));
    CHECK(cuGraphCreate(&same, 0));
    CHECK(cuGraphCreate(&longer, 0));
    add_hash(g, add_hash(g, NULL, 1), 2);
    add_hash(same, add_hash(same, NULL, 3), 4);
    add_hash(longer, add_hash(longer, add_hash(longer, NULL, 1), 1), 1);
    CUgraphExec e = instantiate(g);
    EXPECT(cuGraphExecUpdate_v2(e, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    CHECK(cuGraphExecUpdate_v2(e, same, &info));
    zero();
    CHECK(cuGraphLaunch(e, s));
    assert_int_equal(result(), 3 * 31 + 4);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
    CHECK(cuGraphDestroy(same));
    CHECK(cuGraphDestroy(longer));
}

static void clones_are_separate(void **state)
{
    (void)state;
    CUgraph g, clone;
    CUgraphNode found;
    CHECK(cuGraphCreate(&g, 0));
    CUgraphNode n = add_hash(g, NULL, 1);
    CHECK(cuGraphClone(&clone, g));
    CHECK(cuGraphNodeFindInClone(&found, n, clone));
    assert_ptr_not_equal(found, n);
    CHECK(cuGraphDestroyNode(n));
    size_t count = 0;
    CHECK(cuGraphGetNodes(g, NULL, &count));
    assert_int_equal(count, 0);
    CHECK(cuGraphGetNodes(clone, NULL, &count));
    assert_int_equal(count, 1);
    CHECK(cuGraphDestroy(g));
    CHECK(cuGraphDestroy(clone));
}

/* One exec runs one instance at a time, whatever streams it is launched on. */
static void an_exec_does_not_overlap_itself(void **state)
{
    (void)state;
    CUgraph g;
    CUstream t;
    CHECK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    CHECK(cuGraphCreate(&g, 0));
    add_hash(g, add_hash(g, NULL, 1), 2);
    CUgraphExec e = instantiate(g);
    zero();
    uint64_t expected = 0;
    for (int i = 0; i < 200; i++) {
        CHECK(cuGraphLaunch(e, i % 2 ? t : s));
        expected = (expected * 31 + 1) * 31 + 2;
    }
    CHECK(cuCtxSynchronize());
    assert_int_equal(ag_prog_read64(x), expected);
    unsigned int *flag, one = 1;
    void *none = NULL;
    CHECK(cuMemHostAlloc((void **)&flag, 4, 0));
    *flag = 0;
    CHECK(ag_prog_launch(poll, s, (void *[]){&flag, &one, &none}));
    CHECK(cuGraphLaunch(e, s));
    CHECK(cuGraphLaunch(e, t));
    struct timespec some = {.tv_nsec = 2000000};
    nanosleep(&some, NULL);
    EXPECT(cuStreamQuery(t), CUDA_ERROR_NOT_READY); /* though nothing else is on t */
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(t));
    CHECK(cuMemFreeHost(flag));
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
    CHECK(cuStreamDestroy_v2(t));
}

/* The log of executed work does not tell whether it came eagerly or in a graph. */
static void graphs_log_as_eager_work_does(void **state)
{
    (void)state;
    CUgraph g;
    CHECK(cuGraphCreate(&g, 0));
    add_hash(g, add_hash(g, NULL, 1), 2);
    CUgraphExec e = instantiate(g);
    zero();
    cuSimLogClear();
    cuSimLogStart();
    CHECK(ag_prog_hash(hash, s, x, 1));
    CHECK(ag_prog_hash(hash, s, x, 2));
    CHECK(cuStreamSynchronize(s));
    char *eager = cuSimLogText("exec", 0, 0);
    cuSimLogClear();
    CHECK(cuGraphLaunch(e, s));
    CHECK(cuStreamSynchronize(s));
    char *graph = cuSimLogText("exec", 0, 0);
    cuSimLogStop();
    cuSimLogClear();
    assert_true(strlen(eager) > 10);
    assert_string_equal(eager, graph);
    free(eager);
    free(graph);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
}

/* It can be used by calls beside the graphs as well, until a launch of one frees it. */
static void graphs_allocate_and_free(void **state)
{
    (void)state;
    CUgraph takes, frees;
    CUgraphNode n;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 64};
    CHECK(cuGraphCreate(&takes, 0));
    CHECK(cuGraphAddMemAllocNode(&n, takes, NULL, 0, &params));
    CHECK(cuGraphCreate(&frees, 0));
    EXPECT(cuGraphAddMemFreeNode(&n, frees, NULL, 0, params.dptr + 8), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphAddMemFreeNode(&n, frees, NULL, 0, params.dptr));
    CUgraphExec taking = instantiate(takes), freeing = instantiate(frees);
    for (int i = 0; i < 3; i++) {
        CHECK(cuGraphLaunch(taking, s));
        CHECK(cuMemsetD8Async(params.dptr, 1, 64, s));
        CHECK(cuGraphLaunch(freeing, s));
        if (i == 1) /* else it may have been allocated again before the free has run */
            CHECK(cuStreamSynchronize(s));
    }
    CHECK(cuStreamSynchronize(s));
    EXPECT(cuMemsetD8Async(params.dptr, 1, 64, s), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuGraphExecDestroy(taking));
    CHECK(cuGraphExecDestroy(freeing));
    CHECK(cuGraphDestroy(takes));
    CHECK(cuGraphDestroy(frees));
}

static int start(void **state)
{
    (void)state;
    ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    poll = ag_prog_function(module, "poll");
    x = ag_prog_alloc(8);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    return cuSimAlive("graph") == 0 && cuSimAlive("exec") == 0 && cuSimAlive("node") == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_decide_the_order),
        cmocka_unit_test(set_params_affects_later_launches),
        cmocka_unit_test(kernel_handles_go_in_kern),
        cmocka_unit_test(other_kinds_of_nodes),
        cmocka_unit_test(whole_graph_update),
        cmocka_unit_test(clones_are_separate),
        cmocka_unit_test(an_exec_does_not_overlap_itself),
        cmocka_unit_test(graphs_log_as_eager_work_does),
        cmocka_unit_test(graphs_allocate_and_free),
    };
    return cmocka_run_group_tests(tests, start, nothing_is_left);
}
