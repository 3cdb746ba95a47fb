/*
 * full.c - what a call that never waits takes while another thread waits for room in a full queue.
 *
 * A thread launches a repeating step and never waits for it, so that after a while each launch
 * waits in the driver. Meanwhile the main thread asks again and again about an event that has
 * passed. It prints the median time of such a query, and how many launches had waited.
 */
#define _GNU_SOURCE
#include "tests/gpu/matrix/spin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEP = 20, LEARNED = 50, QUERIES = 400, CYCLES = 100000, WAITS_US = 20, FULL = 50 };

static struct spin spin;
static CUcontext context;
static atomic_int waited, stop;

static void *fill(void *unused)
{
    (void)unused;
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; !atomic_load(&stop); step++) {
        for (int k = 0; k < STEP; k++) {
            double start = ex_now_us();
            spin_launch(&spin, stream, 1, k, step < LEARNED ? 0 : CYCLES);
            if (step >= LEARNED && ex_now_us() - start > WAITS_US) {
                atomic_fetch_add(&waited, 1);
            }
        }
        if (step < LEARNED) {
            CHECK(cuStreamSynchronize(stream));
        }
    }
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    static double us[QUERIES];
    pthread_t thread;
    CUstream stream;
    CUevent passed;
    spin_start(&spin);
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&passed, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(passed, stream));
    CHECK(cuEventSynchronize(passed));
    if (pthread_create(&thread, NULL, fill, NULL)) {
        perror("pthread_create");
        return 1;
    }
    while (atomic_load(&waited) < FULL) {
        usleep(1000);
    }
    for (int i = 0; i < QUERIES; i++) {
        double start = ex_now_us();
        CHECK(cuEventQuery(passed));
        us[i] = ex_now_us() - start;
        usleep(500);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    spin_verify(&spin, "full");
    qsort(us, QUERIES, sizeof *us, by_value);
    printf("MEASURED event query: median %.2f us, 90 of 100 within %.2f us, %d launches waited\n",
           us[QUERIES / 2], us[QUERIES * 9 / 10], atomic_load(&waited));
    spin_stop(&spin);
    return 0;
}
