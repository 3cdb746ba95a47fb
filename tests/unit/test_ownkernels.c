/* test_ownkernels.c - a fill of movable memory waits for nobody who loads the library's kernels. */
#include "tests/unit/unit.h"
#include "tests/unit/streams.h"
#include "capture/capture.h"
#include "capture/graphs/ownkernels.h"
#include "capture/tracking/state.h"
#include "driver/entries.h"
#include <pthread.h>

enum { MEMORY = 0x10000, SIZE = 4096 };
static int here, there, stream;
static unsigned int fills;
static bool has_code;
static struct ag_context other;

static CUresult CUDAAPI get_current(CUcontext *ctx)
{
    *ctx = (CUcontext)(void *)&here;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_flags(CUstream s, unsigned int *flags)
{
    (void)s;
    *flags = CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_context(CUstream s, CUcontext *ctx)
{
    (void)s;
    return get_current(ctx);
}

/* All memory is of a pool. */
static CUresult CUDAAPI ask(unsigned int n, CUpointer_attribute *wanted, void **values,
                            CUdeviceptr address)
{
    (void)address;
    for (unsigned int i = 0; i < n; i++) {
        if (wanted[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
            *(CUcontext *)values[i] = NULL;
        else if (wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
            *(CUdeviceptr *)values[i] = MEMORY;
        else if (wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            *(size_t *)values[i] = SIZE;
        else if (wanted[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned int *)values[i] = CU_MEMORYTYPE_DEVICE;
        else if (wanted[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)
            *(unsigned int *)values[i] = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        else
            *(unsigned int *)values[i] = 0; /* not managed; of the first device */
    }
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    (void)address;
    *base = MEMORY;
    *size = SIZE;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI fill_8(CUdeviceptr dst, unsigned char value, size_t n, CUstream s)
{
    (void)dst;
    (void)value;
    (void)n;
    (void)s;
    fills++;
    return CUDA_SUCCESS;
}

static void *fill(void *unused)
{
    (void)unused;
    struct ag_memset f = {.sym = AG_SYM_cuMemsetD8Async,
                          .dst = MEMORY,
                          .elem_size = 1,
                          .width = 64,
                          .height = 1,
                          .stream = (CUstream)(void *)&stream};
    assert_int_equal(ag_core_memset(&f), CUDA_SUCCESS);
    return NULL;
}

/* The load goes on only when another thread's fill has returned. */
static CUresult CUDAAPI load_module(CUmodule *module, const void *image)
{
    pthread_t thread;
    (void)image;
    *module = (CUmodule)(void *)&there;
    assert_int_equal(pthread_create(&thread, NULL, fill, NULL), 0);
    pthread_join(thread, NULL);
    return has_code ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult CUDAAPI get_function(CUfunction *function, CUmodule module, const char *name)
{
    (void)name;
    *function = (CUfunction)(void *)module;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI push(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop(CUcontext *ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI unload_module(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI change_mode(CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}

static int start(void **state)
{
    (void)state;
    ag_real[AG_SYM_cuCtxGetCurrent] = (void *)get_current;
    ag_real[AG_SYM_cuCtxPushCurrent_v2] = (void *)push;
    ag_real[AG_SYM_cuCtxPopCurrent_v2] = (void *)pop;
    ag_real[AG_SYM_cuCtxGetDevice] = (void *)get_device;
    ag_real[AG_SYM_cuPointerGetAttributes] = (void *)ask;
    ag_real[AG_SYM_cuMemGetAddressRange_v2] = (void *)get_range;
    ag_real[AG_SYM_cuMemsetD8Async] = (void *)fill_8;
    ag_real[AG_SYM_cuModuleLoadData] = (void *)load_module;
    ag_real[AG_SYM_cuModuleGetFunction] = (void *)get_function;
    ag_real[AG_SYM_cuModuleUnload] = (void *)unload_module;
    ag_real[AG_SYM_cuThreadExchangeStreamCaptureMode] = (void *)change_mode;
    unit_streams_start(get_flags, get_context);
    ag_state_leave(AG_EAGER_OFF);
    other.handle = (CUcontext)(void *)&there;
    alarm(60); /* else a fill that waits would wait for as long as ctest does */
    return 0;
}

/* The driver may load for as long as the other context works. */
static void a_fill_does_not_wait_for_a_load(void **state)
{
    (void)state;
    has_code = true;
    ag_own_kernels_load(&other);
#ifdef AG_HAVE_OWN_IMAGE
    assert_int_equal(fills, 1);
    assert_true(ag_own_kernels_are_loaded(&other));
    assert_non_null(ag_own_kernel(&other, AG_OWN_FILL));
#endif
    ag_own_kernels_unload(&other);
    assert_false(ag_own_kernels_are_loaded(&other));
    assert_null(ag_own_kernel(&other, AG_OWN_FILL));
}

static void kernels_that_cannot_be_loaded(void **state)
{
    (void)state;
    has_code = false;
    ag_own_kernels_load(&other);
    assert_true(ag_own_kernels_tried(&other));
    assert_false(ag_own_kernels_are_loaded(&other));
    assert_null(ag_own_kernel(&other, AG_OWN_COPY));
    ag_own_kernels_unload(&other);
    assert_false(ag_own_kernels_tried(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fill_does_not_wait_for_a_load),
        cmocka_unit_test(kernels_that_cannot_be_loaded),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
