/* test_error_log.c - cuLogsRegisterCallback: a line for each call that fails, and for no other. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct told {
    int lines;
    char last[256];
};

static void CUDA_CB tell(void *data, CUlogLevel level, char *message, size_t length)
{
    struct told *t = data;
    CUdeviceptr p;
    assert_int_equal(level, CU_LOG_LEVEL_ERROR);
    assert_int_equal(strlen(message), length);
    snprintf(t->last, sizeof t->last, "%s", message);
    t->lines++;
    assert_int_not_equal(cuMemAlloc_v2(&p, 0), CUDA_SUCCESS); /* not told: it would never end */
}

static void failures_are_told(void **state)
{
    (void)state;
    struct told a = {0}, b = {0};
    CUlogsCallbackHandle first, second;
    CUdeviceptr p;
    CUfunction f;
    CUmodule module = ag_prog_module();
    EXPECT(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE); /* nobody asked */
    CHECK(cuLogsRegisterCallback(tell, &a, &first));
    CHECK(cuMemAlloc_v2(&p, 8));
    CHECK(cuMemFree_v2(p));
    assert_int_equal(a.lines, 0);
    EXPECT(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(a.lines, 1);
    assert_string_equal(a.last, "[CUDA][E][cuMemAlloc] CUDA_ERROR_INVALID_VALUE");
    CHECK(cuLogsRegisterCallback(tell, &b, &second));
    EXPECT(cuModuleGetFunction(&f, module, "no such kernel"), CUDA_ERROR_NOT_FOUND);
    assert_string_equal(a.last, "[CUDA][E][cuModuleGetFunction] CUDA_ERROR_NOT_FOUND");
    assert_string_equal(b.last, a.last);
    assert_int_equal(cuSimFail("cuCtxSynchronize", 1, CUDA_ERROR_UNKNOWN), 0);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN); /* armed faults too */
    assert_int_equal(a.lines, 3);
    assert_int_equal(b.lines, 2);
    CHECK(cuLogsUnregisterCallback(first));
    EXPECT(cuLogsUnregisterCallback(first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(a.lines, 3);
    assert_int_equal(b.lines, 3);
    CHECK(cuLogsUnregisterCallback(second));
    EXPECT(cuLogsRegisterCallback(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(b.lines, 3);
}

static void not_ready_is_no_failure(void **state)
{
    (void)state;
    struct told t = {0};
    CUlogsCallbackHandle handle;
    unsigned int *flag;
    void *none = NULL;
    CHECK(cuMemHostAlloc((void **)&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuLogsRegisterCallback(tell, &t, &handle));
    CHECK(ag_prog_launch(ag_prog_function(ag_prog_module(), "poll"), NULL,
                         (void *[]){&flag, &(unsigned int){1}, &none}));
    EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    CHECK(cuCtxSynchronize());
    assert_int_equal(t.lines, 0);
    CHECK(cuLogsUnregisterCallback(handle));
    CHECK(cuMemFreeHost(flag));
}

/* Nobody need wait for cuInit to ask. */
static void before_cuInit(void **state)
{
    (void)state;
    struct told t = {0};
    CUlogsCallbackHandle handle;
    int n;
    CHECK(cuLogsRegisterCallback(tell, &t, &handle));
    EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(t.last, "[CUDA][E][cuInit] CUDA_ERROR_INVALID_VALUE");
    EXPECT(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(t.lines, 2);
    CHECK(cuLogsUnregisterCallback(handle));
    ag_prog_start();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_cuInit),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(not_ready_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
