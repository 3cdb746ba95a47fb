/* test_vmm.c - memory that the program maps itself, and what is said of it and of a pool's. */
#include "tests/simdriver/simprog.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PIECE = 65536 };

static CUstream stream;
static CUdeviceptr base;
static CUmemGenericAllocationHandle handles[2];

struct said {
    CUcontext ctx;
    unsigned int type, access;
    int device;
    CUdeviceptr start;
    size_t size;
};

static struct said ask(CUdeviceptr p)
{
    struct said s;
    memset(&s, 0x5a, sizeof s);
    void *values[] = {&s.ctx, &s.type, &s.access, &s.device, &s.start, &s.size};
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CHECK(cuPointerGetAttributes(6, wanted, values, p));
    return s;
}

static CUmemAllocationProp on(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static void give(CUdeviceptr p, size_t bytes, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    CHECK(cuMemSetAccess(p, bytes, &desc, 1));
}

static void what_is_said(void **state)
{
    (void)state;
    CUdeviceptr start;
    size_t size;
    struct said s = ask(base + PIECE + 8);
    assert_null(s.ctx);
    assert_int_equal(s.type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(s.access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    assert_int_equal(s.device, 0);
    assert_int_equal(s.start, base); /* the reservation, not the piece */
    assert_int_equal(s.size, 4 * PIECE);
    CHECK(cuMemGetAddressRange_v2(&start, &size, base + PIECE + 8));
    assert_int_equal(start, base + PIECE);
    assert_int_equal(size, PIECE);
    s = ask(base + 2 * PIECE); /* nothing is mapped there */
    assert_int_equal(s.type, 0);
    EXPECT(cuMemGetAddressRange_v2(&start, &size, base + 2 * PIECE), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr pooled;
    CHECK(cuMemAllocAsync(&pooled, 100, stream));
    s = ask(pooled);
    assert_null(s.ctx);
    assert_int_equal(s.access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    assert_int_equal(s.start, pooled);
    assert_int_equal(s.size, 100);
    CHECK(cuMemFreeAsync(pooled, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void pieces_side_by_side_are_one(void **state)
{
    (void)state;
    CHECK(cuMemsetD32Async(base + PIECE - 8, 7, 4, stream));
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(base + PIECE), 0x0000000700000007);
    CHECK(cuMemcpyDtoDAsync_v2(base, base + PIECE - 8, 16, stream));
    EXPECT(cuMemsetD8Async(base + PIECE, 1, PIECE + 1, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyDtoDAsync_v2(base, base + PIECE, PIECE + 1, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamSynchronize(stream));
    assert_int_equal(ag_prog_read64(base + 8), 0x0000000700000007);
}

static void access_is_checked(void **state)
{
    (void)state;
    give(base, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    assert_int_equal(ask(base).access, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
    EXPECT(cuMemsetD8Async(base, 1, 8, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyDtoDAsync_v2(base, base + PIECE, 8, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyDtoDAsync_v2(base + PIECE, base, 8, stream));
    CHECK(cuStreamSynchronize(stream));
    give(base, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(cuMemsetD8Async(base, 1, 8, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void memory_moves_and_keeps_what_it_holds(void **state)
{
    (void)state;
    CHECK(cuMemsetD8_v2(base, 3, 8));
    CHECK(cuMemUnmap(base, PIECE));
    EXPECT(cuMemsetD8Async(base, 1, 8, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAddressFree(base, 4 * PIECE), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemMap(base + 3 * PIECE, PIECE, 0, handles[0], 0));
    EXPECT(cuMemsetD8Async(base + 3 * PIECE, 1, 8, stream), CUDA_ERROR_INVALID_VALUE);
    give(base + 3 * PIECE, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    assert_int_equal(ag_prog_read64(base + 3 * PIECE), 0x0303030303030303);
    EXPECT(cuMemMap(base + 3 * PIECE, PIECE, 0, handles[1], 0), CUDA_ERROR_INVALID_VALUE);
}

static void another_devices_memory(void **state)
{
    (void)state;
    CUmemAllocationProp prop = on(1);
    CUmemGenericAllocationHandle other;
    CHECK(cuMemCreate(&other, PIECE, &prop, 0));
    CHECK(cuMemMap(base + 2 * PIECE, PIECE, 0, other, 0));
    CHECK(cuMemRelease(other));
    EXPECT(cuMemRelease(other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(base + 2 * PIECE).device, 1);
    CHECK(cuMemUnmap(base + PIECE, 3 * PIECE));
    CHECK(cuMemAddressFree(base, 4 * PIECE));
}

static int start(void **state)
{
    (void)state;
    size_t granularity;
    CUmemAllocationProp prop = on(0);
    ag_prog_start();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, PIECE);
    CHECK(cuMemAddressReserve(&base, 4 * PIECE, 0, 0, 0));
    for (CUdeviceptr i = 0; i < 2; i++) {
        CHECK(cuMemCreate(&handles[i], PIECE, &prop, 0));
        CHECK(cuMemMap(base + i * PIECE, PIECE, 0, handles[i], 0));
    }
    give(base, 2 * PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said),
        cmocka_unit_test(pieces_side_by_side_are_one),
        cmocka_unit_test(access_is_checked),
        cmocka_unit_test(memory_moves_and_keeps_what_it_holds),
        cmocka_unit_test(another_devices_memory),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
