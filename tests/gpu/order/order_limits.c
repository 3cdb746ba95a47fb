/*
 * order_limits.c - a function whose most dynamic shared memory is set to and fro in every step, as
 * cuDNN does for batch normalisation; now and then a launch takes more than is allowed.
 */
#include "order.h"

#include <stdio.h>

enum { LARGE = 60000, SMALL = 4096, PART = KERNELS / 2 };

static void allow(const struct lane *lane, int bytes)
{
    CHECK(cuFuncSetAttribute(lane->loop.kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             bytes));
}

/* Some launches of which the first takes so much shared memory. */
static void launches(struct lane *lane, CUstream stream, int from, int to, unsigned int shared)
{
    lane->loop.shared = shared;
    order_launches(lane, stream, from, from + 1);
    lane->loop.shared = 0;
    order_launches(lane, stream, from + 1, to);
}

/* The code of a launch that takes more than is allowed. */
static CUresult launch_large(struct lane *lane)
{
    lane->loop.shared = LARGE;
    CUresult code = fault_launch(&lane->loop, 0, FAULT_NONE, SIZE);
    lane->loop.shared = 0;
    return code;
}

bool order_limits(struct lane *lane)
{
    CUstream stream = order_stream(CU_STREAM_NON_BLOCKING);
    int refused = 0, code = 0;
    for (int round = 0; round < ROUNDS; round++) {
        allow(lane, LARGE);
        launches(lane, stream, 0, PART, LARGE);
        allow(lane, SMALL);
        if (round % 10 == 9) {
            code = (int)launch_large(lane);
            refused += code != CUDA_SUCCESS;
        }
        launches(lane, stream, PART, KERNELS, SMALL);
        CHECK(cuStreamSynchronize(stream));
        if (round % 25 == 24 && !order_memory_holds(lane, round)) {
            return false;
        }
    }
    printf("refused %d of %d, the last with %d\n", refused, ROUNDS / 10, code);
    return refused == ROUNDS / 10 && order_memory_holds(lane, ROUNDS);
}
