/*
 * constructor.c - a plug-in whose constructor waits for a thread that launches and synchronises.
 * Meanwhile the loader's lock is held.
 */
#define _GNU_SOURCE
#include "tests/simdriver/simprog.h"
#include <pthread.h>

enum { STEPS = 50, STEP = 20 };

static void *run(void *unused)
{
    CUstream stream;
    CUuuid id = {{0x51, (char)0xa7, (char)0xab, 0x1e, [15] = 1}}; /* SIMCUDA_TABLE */
    const void *table;
    uint64_t want = 0;
    (void)unused;
    ag_prog_start();
    CHECK(cuGetExportTable(&table, &id));
    CUfunction hash = ag_prog_function(ag_prog_module(), "hash");
    CUdeviceptr x = ag_prog_alloc(8);
    CHECK(cuCtxSynchronize()); /* the fill is the legacy stream's, which orders nothing here */
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < STEPS; i++) {
        for (uint64_t k = 0; k < STEP; k++) {
            CHECK(ag_prog_hash(hash, stream, x, k));
            want = want * 31 + k;
        }
        CHECK(cuStreamSynchronize(stream));
    }
    puts(ag_prog_read64(x) == want ? "right" : "WRONG");
    return NULL;
}

__attribute__((constructor)) static void loaded(void)
{
    pthread_t thread;
    REQUIRE(!pthread_create(&thread, NULL, run, NULL));
    REQUIRE(!pthread_join(thread, NULL));
}
