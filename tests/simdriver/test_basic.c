/* test_basic.c - contexts, modules, memory, launches, errors, faults and the log. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static CUmodule module;
static CUfunction hash;

static void devices_and_contexts(void **state)
{
    (void)state;
    int n, major, version;
    char name[64];
    CUcontext a, b, now;
    CHECK(cuDeviceGetCount(&n));
    assert_int_equal(n, 2);
    CHECK(cuDriverGetVersion(&version));
    assert_int_equal(version, 13000);
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1));
    assert_int_equal(major, 9);
    CHECK(cuDeviceGetName(name, sizeof name, 1));
    EXPECT(cuDeviceGetName(name, sizeof name, 2), CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuCtxGetCurrent(&a));
    CHECK(cuCtxCreate_v2(&b, 0, 1));
    CHECK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, b);
    CHECK(cuCtxDestroy_v2(b));
    CHECK(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, a);
    uint64_t before = cuSimMisuseCount();
    EXPECT(cuCtxPushCurrent_v2(b), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuSimMisuseCount(), before + 1);
}

static void modules_and_kernels(void **state)
{
    (void)state;
    CUmodule m;
    CUfunction f, g;
    CUlibrary library;
    CUkernel k;
    CUdeviceptr address;
    size_t offset, size;
    CHECK(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC "kernel axpy\nglobal table 4096\n"));
    CHECK(cuModuleGetFunction(&f, m, "axpy"));
    EXPECT(cuModuleGetFunction(&g, m, "hash"), CUDA_ERROR_NOT_FOUND);
    CHECK(cuFuncGetParamInfo(f, 2, &offset, &size));
    assert_int_equal(offset, 16);
    assert_int_equal(size, 4);
    EXPECT(cuFuncGetParamInfo(f, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuKernelGetParamInfo((CUkernel)f, 0, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuModuleGetGlobal_v2(&address, &size, m, "table"));
    assert_int_equal(size, 4096);
    CHECK(cuModuleUnload(m));
    EXPECT(cuFuncGetParamInfo(f, 0, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuModuleLoadData(&m, "\x7f"
                                "ELF"),
           CUDA_ERROR_INVALID_IMAGE);
    EXPECT(cuModuleLoadData(&m, SIMCUDA_IMAGE_MAGIC "kernel nobody\n"), CUDA_ERROR_INVALID_IMAGE);

    CHECK(cuLibraryLoadData(&library, SIMCUDA_IMAGE_MAGIC, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, library, "hash"));
    CHECK(cuKernelGetParamInfo(k, 1, &offset, &size));
    assert_int_equal(offset, 8);
    EXPECT(cuFuncGetParamInfo((CUfunction)k, 0, &offset, &size), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuKernelGetFunction(&f, k));
    CHECK(cuFuncGetParamInfo(f, 0, &offset, NULL));
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(ag_prog_hash((CUfunction)k, NULL, x, 3));
    CHECK(ag_prog_hash(f, NULL, x, 4));
    assert_int_equal(ag_prog_read64(x), 3 * 31 + 4);
    CHECK(cuMemFree_v2(x));
    CHECK(cuLibraryUnload(library));
}

static void ptx_names_registered_kernels(void **state)
{
    (void)state;
    CUmodule m;
    CUfunction f;
    CHECK(cuModuleLoadData(&m, ".version 8.0\n.target sm_90\n.visible .entry hash(\n.param .u64 a)"
                               "{ ret; }\n"));
    CHECK(cuModuleGetFunction(&f, m, "hash"));
    EXPECT(cuModuleGetFunction(&f, m, "axpy"), CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleUnload(m));
}

static void sum_struct(const struct cuSimLaunch *l)
{
    const struct {
        char c[12];
        int n;
    } *s = l->params[1];
    **(int *const *)l->params[0] = s->n + *(const short *)l->params[2] + (int)l->grid[0];
}

static void programs_register_kernels(void **state)
{
    (void)state;
    const size_t sizes[] = {8, 16, 2};
    assert_int_equal(cuSimRegisterKernel("sum_struct", sum_struct, 3, NULL, sizes, 0), 0);
    CUfunction f = ag_prog_function(module, "sum_struct");
    CUdeviceptr out = ag_prog_alloc(4);
    struct {
        char c[12];
        int n;
    } s = {"", 40};
    short two = 2;
    CHECK(cuLaunchKernel(f, 5, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out, &s, &two}, NULL));
    int got;
    CHECK(cuMemcpyDtoH_v2(&got, out, 4));
    assert_int_equal(got, 47);
    CHECK(cuMemFree_v2(out));
}

static void arguments_are_copied_at_launch(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t k = 7;
    struct {
        CUdeviceptr x;
        uint64_t k;
    } packed = {x, 5};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    packed.k = 99;
    CHECK(ag_prog_hash(hash, NULL, x, k));
    k = 1000;
    assert_int_equal(ag_prog_read64(x), 5 * 31 + 7);
    CHECK(cuMemFree_v2(x));
}

static void bad_launches(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t k = 1;
    void *params[] = {&x, &k};
    EXPECT(cuLaunchKernel(hash, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(hash, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 50000, NULL, params, NULL),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
           CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    CHECK(cuLaunchKernel(hash, 1, 1, 1, 1, 1, 1, 50000, NULL, params, NULL));
    CHECK(cuFuncSetAttribute(hash, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 49152));
    assert_int_equal(ag_prog_read64(x), 1);
    CHECK(cuMemFree_v2(x));
}

static void launch_attributes(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    uint64_t k = 1;
    CUlaunchAttribute a[2] = {{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION},
                              {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION}};
    a[0].value.clusterDim.x = 2;
    a[0].value.clusterDim.y = a[0].value.clusterDim.z = 1;
    a[1].value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {.gridDimX = 4,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = a,
                             .numAttrs = 2};
    CHECK(cuLaunchKernelEx(&config, hash, (void *[]){&x, &k}, NULL));
    config.gridDimX = 3;
    EXPECT(cuLaunchKernelEx(&config, hash, (void *[]){&x, &k}, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchCooperativeKernel(hash, 100000, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&x, &k}),
           CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    assert_int_equal(ag_prog_read64(x), 1);
    CHECK(cuMemFree_v2(x));
}

static void memory_and_pointers(void **state)
{
    (void)state;
    CUdeviceptr p = ag_prog_alloc(1000), managed, base;
    size_t size, before, after, total;
    unsigned int host[4] = {1, 2, 3, 4}, back[4] = {0};
    CUmemorytype type;
    void *pinned;
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuMemGetAddressRange_v2(&base, &size, p + 500));
    assert_int_equal(base, p);
    assert_int_equal(size, 1000);
    CHECK(cuMemcpyHtoD_v2(p, host, sizeof host));
    CHECK(cuMemsetD32_v2(p + 4, 9, 2));
    CHECK(cuMemcpyDtoD_v2(p + 100, p, sizeof host));
    CHECK(cuMemcpyDtoH_v2(back, p + 100, sizeof back));
    assert_int_equal(back[0], 1);
    assert_int_equal(back[1], 9);
    assert_int_equal(back[2], 9);
    assert_int_equal(back[3], 4);
    EXPECT(cuMemcpyHtoD_v2(p + 990, host, sizeof host), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemsetD8_v2(p, 0, 1001), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemAllocHost_v2(&pinned, 64));
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host),
           CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    *(int *)managed = 5;
    CHECK(cuMemFree_v2(managed));
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before + 1000);
    EXPECT(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAlloc_v2(&p, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
}

static void two_dimensional_copies(void **state)
{
    (void)state;
    CUdeviceptr p;
    size_t pitch;
    char in[3][4] = {"abc", "def", "ghi"}, out[3][4] = {{0}};
    CHECK(cuMemAllocPitch_v2(&p, &pitch, 4, 3, 4));
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = in,
                       .srcPitch = 4,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = pitch,
                       .WidthInBytes = 4,
                       .Height = 3};
    CHECK(cuMemcpy2D_v2(&c));
    assert_string_equal((char *)p + 2 * pitch, "ghi");
    CUDA_MEMCPY2D d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .srcPitch = pitch,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = out,
                       .dstPitch = 4,
                       .WidthInBytes = 4,
                       .Height = 2};
    CHECK(cuMemcpy2D_v2(&d));
    assert_string_equal(out[0], "def");
    assert_string_equal(out[1], "ghi");
    CHECK(cuMemFree_v2(p));
}

static void unsupported_is_said(void **state)
{
    (void)state;
    uint64_t before = cuSimUnsupportedCount();
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 1, .NumChannels = 1};
    EXPECT(cuArrayCreate_v2(&array, &d), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuSimUnsupportedCount(), before + 1);
}

static void faults(void **state)
{
    (void)state;
    CUdeviceptr p;
    assert_int_equal(cuSimFail("cuNothing", 1, 2), -1);
    assert_int_equal(cuSimFail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
    CHECK(cuMemAlloc_v2(&p, 8));
    EXPECT(cuMemAlloc_v2(&p, 8), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuMemFree_v2(p));
    assert_int_equal(cuSimFail("cuMemAlloc_v2", 0, CUDA_ERROR_UNKNOWN), 0);
    EXPECT(cuMemAlloc_v2(&p, 8), CUDA_ERROR_UNKNOWN);
    EXPECT(cuMemAlloc_v2(&p, 8), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuSimFail("cuMemAlloc_v2", 0, 0), 0);
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuMemFree_v2(p));
}

static void log_has_calls_and_work(void **state)
{
    (void)state;
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize());
    cuSimLogClear();
    cuSimLogStart();
    CHECK(ag_prog_hash(hash, NULL, x, 1));
    EXPECT(cuLaunchKernel(hash, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuCtxSynchronize());
    cuSimLogStop();
    char *exec = cuSimLogText("exec", 0, 0), *calls = cuSimLogText("call", 0, 0);
    assert_non_null(strstr(exec, "exec 1 kernel hash 1,1,1 1,1,1 0 "));
    assert_ptr_equal(strchr(exec, '\n'), exec + strlen(exec) - 1);
    assert_non_null(strstr(calls, " cuLaunchKernel 0\n"));
    assert_non_null(strstr(calls, " cuLaunchKernel 1\n"));
    free(exec);
    free(calls);
    cuSimLogClear();
    CHECK(cuMemFree_v2(x));
}

static void export_tables(void **state)
{
    (void)state;
    const CUuuid known = {{(char)0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7,
                           0x4a, (char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd,
                           (char)0x9d, (char)0xf9}};
    CUuuid unknown = known;
    const void *table, *again;
    unknown.bytes[0] = 1;
    CHECK(cuGetExportTable(&table, &known));
    assert_non_null(table);
    CHECK(cuGetExportTable(&again, &known));
    assert_ptr_equal(table, again);
    bool configured = getenv("SIMCUDA_TABLES") != NULL; /* 01d5fb6c-... */
    EXPECT(cuGetExportTable(&table, &unknown), configured ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
    assert_true((table != NULL) == configured);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p;
        int n;
        _exit(cuMemAlloc_v2(&p, 8) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_trap_is_sticky(void **state)
{
    (void)state;
    CUcontext ctx, before;
    CUdeviceptr x;
    int code = CUDA_ERROR_LAUNCH_FAILED;
    CHECK(cuCtxGetCurrent(&before));
    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    CUmodule m = ag_prog_module();
    CHECK(cuMemAlloc_v2(&x, 8));
    CHECK(ag_prog_launch(ag_prog_function(m, "trap"), NULL, (void *[]){&code}));
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(ag_prog_hash(ag_prog_function(m, "hash"), NULL, x, 1), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(cuMemAlloc_v2(&x, 8), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(cuMemcpyHtoDAsync_v2(x, (void *)32, 8, NULL), CUDA_ERROR_LAUNCH_FAILED); /* not read */
    CHECK(cuCtxDestroy_v2(ctx));

    CHECK(cuCtxCreate_v2(&ctx, 0, 0));
    m = ag_prog_module();
    x = 0x1000;
    CHECK(ag_prog_hash(ag_prog_function(m, "hash"), NULL, x, 1));
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuCtxDestroy_v2(ctx));
    CHECK(cuCtxSetCurrent(before));
    CHECK(cuCtxSynchronize());
}

static int start(void **state)
{
    (void)state;
    int n;
    EXPECT(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    ag_prog_start();
    module = ag_prog_module();
    hash = ag_prog_function(module, "hash");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_and_contexts),
        cmocka_unit_test(modules_and_kernels),
        cmocka_unit_test(ptx_names_registered_kernels),
        cmocka_unit_test(programs_register_kernels),
        cmocka_unit_test(arguments_are_copied_at_launch),
        cmocka_unit_test(bad_launches),
        cmocka_unit_test(launch_attributes),
        cmocka_unit_test(memory_and_pointers),
        cmocka_unit_test(two_dimensional_copies),
        cmocka_unit_test(unsupported_is_said),
        cmocka_unit_test(faults),
        cmocka_unit_test(log_has_calls_and_work),
        cmocka_unit_test(export_tables),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_trap_is_sticky),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
