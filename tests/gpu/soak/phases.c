/* phases.c - see phases.h. */
#include "phases.h"
#include "tests/fuzz/kernels.h"
#include <pthread.h>

void soak_load(struct soak *s)
{
    CHECK(cuModuleLoadData(&s->module, fz_image()));
    s->mix = driver_kernel(s->module, "fz_mix");
    s->join = driver_kernel(s->module, "fz_join");
    s->span = driver_kernel(s->module, "fz_span");
}

void soak_unload(struct soak *s)
{
    CHECK(cuModuleUnload(s->module));
}

void soak_digest(struct soak *s, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->digest = (s->digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static uint32_t below(struct soak *s, uint32_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->random >> 33) % n;
}

static CUdeviceptr word(const struct soak *s, int buffer, int i)
{
    return s->data[buffer % SOAK_BUFFERS] + (CUdeviceptr)(i % (SOAK_WORDS - 16)) * 8;
}

static void mix(const struct soak *s, CUstream stream, CUdeviceptr x, uint64_t k, unsigned int grid)
{
    CHECK(cuLaunchKernel(s->mix, grid, 1, 1, 32, 1, 1, 0, stream, (void *[]){&x, &k}, NULL));
}

static void join(const struct soak *s, CUstream stream, CUdeviceptr x, CUdeviceptr y, uint64_t k)
{
    CHECK(cuLaunchKernel(s->join, 1, 1, 1, 64, 1, 1, 0, stream, (void *[]){&x, &y, &k}, NULL));
}

static void span(const struct soak *s, CUstream stream, CUdeviceptr x, uint32_t n, uint64_t k)
{
    CHECK(cuLaunchKernel(s->span, 2, 1, 1, 32, 1, 1, 0, stream, (void *[]){&x, &n, &k}, NULL));
}

/* ---- loops ------------------------------------------------------------------------------ */

static void same_every_step(struct soak *s)
{
    for (int i = 0; i < s->steps; i++) {
        for (int k = 0; k < 20; k++)
            mix(s, s->stream, word(s, k, k), (uint64_t)k, 1);
        CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
}

static void counting_without_sync(struct soak *s)
{
    for (int i = 0; i < s->steps; i++) {
        for (int k = 0; k < 12; k++)
            mix(s, s->stream, word(s, k, i), (uint64_t)(i + k), 1 + k % 3u);
        span(s, s->stream, word(s, i, 3), 8, (uint64_t)i);
        s->tick();
    }
}

static void fork_and_join(struct soak *s)
{
    CUstream side;
    CUevent fork, back;
    CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < s->steps; i++) {
        mix(s, s->stream, word(s, 0, 0), 1, 1);
        CHECK(cuEventRecord(fork, s->stream));
        CHECK(cuStreamWaitEvent(side, fork, 0));
        for (int k = 0; k < 6; k++) {
            mix(s, s->stream, word(s, 1, k), (uint64_t)k, 1);
            join(s, side, word(s, 2, k), word(s, 0, 0), (uint64_t)k);
        }
        CHECK(cuEventRecord(back, side));
        CHECK(cuStreamWaitEvent(s->stream, back, 0));
        join(s, s->stream, word(s, 0, 0), word(s, 2, 5), 2);
        if (i % 16 == 15)
            CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
    CHECK(cuStreamSynchronize(s->stream));
    CHECK(cuEventDestroy(fork));
    CHECK(cuEventDestroy(back));
    CHECK(cuStreamDestroy(side));
}

/* Lengths and grids that change, as with sequences of growing length. */
static void changing_shapes(struct soak *s)
{
    for (int i = 0; i < s->steps; i++) {
        int length = 4 + i / 8 % 32;
        for (int k = 0; k < length; k++)
            mix(s, s->stream, word(s, k, 0), (uint64_t)i, 1 + (unsigned int)(i / 64 % 8));
        CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
}

static void fills_and_copies(struct soak *s)
{
    for (int i = 0; i < s->steps; i++) {
        for (int k = 0; k < 6; k++) {
            CHECK(cuMemsetD32Async(word(s, k, 32), (unsigned int)(i + k), 24, s->stream));
            join(s, s->stream, word(s, k + 1, 0), word(s, k, 33), 5);
            CHECK(cuMemcpyDtoDAsync(word(s, k + 2, 64), word(s, k + 1, 0), 64, s->stream));
        }
        if (i % 4 == 3)
            CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
}

/* A scalar that the host looks at in every step decides how long the next one is. */
static void scalar_read_back(struct soak *s)
{
    uint64_t value = 0;
    for (int i = 0; i < s->steps; i++) {
        for (int k = 0; k < 4 + (int)(value % 3); k++)
            mix(s, s->stream, word(s, k, 1), 3, 1);
        CHECK(cuMemcpyDtoHAsync(&value, word(s, 0, 1), 8, s->stream));
        CHECK(cuStreamSynchronize(s->stream));
        soak_digest(s, &value, sizeof value);
        s->tick();
    }
}

static void never_the_same(struct soak *s)
{
    for (int i = 0; i < s->steps / 2; i++) {
        for (int k = 0; k < 12; k++)
            mix(s, s->stream, word(s, (int)below(s, 8), (int)below(s, 200)), below(s, 1000),
                1 + below(s, 200));
        CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
}

/* ---- things that come and go ------------------------------------------------------------ */

static void modules_come_and_go(struct soak *s)
{
    for (int i = 0; i < s->steps / 2; i++) {
        if (i % 100 == 99) {
            soak_unload(s);
            soak_load(s);
        }
        for (int k = 0; k < 16; k++)
            mix(s, s->stream, word(s, k, k), (uint64_t)(i % 7), 1);
        CHECK(cuStreamSynchronize(s->stream));
        s->tick();
    }
}

static void streams_come_and_go(struct soak *s)
{
    for (int round = 0; round < s->steps / 50; round++) {
        CUstream streams[4];
        for (int n = 0; n < 4; n++)
            CHECK(cuStreamCreate(&streams[n], n & 1 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        for (int i = 0; i < 20; i++) {
            for (int n = 0; n < 4; n++)
                for (int k = 0; k < 5; k++)
                    mix(s, streams[n], word(s, n, k), (uint64_t)k, 1);
            s->tick();
        }
        for (int n = 0; n < 4; n++) {
            CHECK(cuStreamSynchronize(streams[n]));
            CHECK(cuStreamDestroy(streams[n]));
        }
    }
}

static void memory_comes_and_goes(struct soak *s)
{
    for (int round = 0; round < s->steps / 40; round++) {
        CUdeviceptr x;
        uint64_t value;
        size_t bytes = (size_t)(1 + round % 5) << 20;
        CHECK(cuMemAlloc(&x, bytes));
        CHECK(cuMemsetD8Async(x, 1, 4096, s->stream));
        for (int i = 0; i < 20; i++) {
            for (int k = 0; k < 8; k++)
                mix(s, s->stream, x + (CUdeviceptr)k * 8, (uint64_t)k, 1);
            s->tick();
        }
        CHECK(cuMemcpyDtoHAsync(&value, x + 56, 8, s->stream));
        CHECK(cuStreamSynchronize(s->stream));
        soak_digest(s, &value, sizeof value);
        CHECK(cuMemFree(x));
    }
}

static void graphs_of_its_own(struct soak *s)
{
    for (int round = 0; round < s->steps / 40; round++) {
        CUgraph graph;
        CUgraphExec exec;
        CHECK(cuStreamBeginCapture(s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        for (int k = 0; k < 10; k++)
            mix(s, s->stream, word(s, k, 0), (uint64_t)round, 1);
        CHECK(cuStreamEndCapture(s->stream, &graph));
        CHECK(cuGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 20; i++) {
            for (int k = 0; k < 6; k++)
                mix(s, s->stream, word(s, k, 0), (uint64_t)k, 1);
            CHECK(cuGraphLaunch(exec, s->stream));
            s->tick();
        }
        CHECK(cuStreamSynchronize(s->stream));
        CHECK(cuGraphExecDestroy(exec));
        CHECK(cuGraphDestroy(graph));
    }
}

struct helper {
    const struct soak *soak;
    CUcontext context;
    int buffer;
};

static void *helper_thread(void *argument)
{
    const struct helper *h = argument;
    CUstream stream;
    CHECK(cuCtxSetCurrent(h->context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 10; k++)
            mix(h->soak, stream, word(h->soak, h->buffer, k), (uint64_t)k, 1);
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuStreamDestroy(stream));
    return NULL;
}

static void threads_come_and_go(struct soak *s)
{
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    for (int round = 0; round < s->steps / 120; round++) {
        pthread_t threads[3];
        struct helper helpers[3];
        for (int i = 0; i < 3; i++) {
            helpers[i] = (struct helper){s, context, i};
            if (pthread_create(&threads[i], NULL, helper_thread, &helpers[i]))
                abort();
        }
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        s->tick();
    }
}

const struct soak_phase soak_phases[SOAK_PHASES] = {
    {"same every step", same_every_step},
    {"counting without sync", counting_without_sync},
    {"fork and join", fork_and_join},
    {"changing shapes", changing_shapes},
    {"fills and copies", fills_and_copies},
    {"scalar read back", scalar_read_back},
    {"never the same", never_the_same},
    {"modules come and go", modules_come_and_go},
    {"streams come and go", streams_come_and_go},
    {"memory comes and goes", memory_comes_and_goes},
    {"graphs of its own", graphs_of_its_own},
    {"threads come and go", threads_come_and_go},
};
