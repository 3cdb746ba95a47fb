/*
 * ahead.c - how many launches wait for the GPU where the program never waits for it.
 *
 *   ahead OPS [US [LAUNCHES]]
 *
 * Steps of OPS kernels of US microseconds (100), LAUNCHES altogether (10000), and no sync. Each
 * kernel counts up a word of mapped host memory when it starts. Behind each launch the host notes
 * how many have been launched and have not started. After the first half of the launches the queue
 * is full, and each launch waits until there is room. Prints the largest and the median of the
 * second half, the longest launch in it, and what a kernel took. On the simulated driver a queue
 * is full only with SIMCUDA_QUEUE.
 */
#define _GNU_SOURCE
#include "tests/gpu/matrix/spin.h"

#include <stdio.h>
#include <stdlib.h>

struct counted {
    struct spin spin;
    CUstream stream;
    CUdeviceptr word_on_device;
    volatile uint32_t *word;
    long long cycles;
};

/* Launch number k of a step. */
static void launch(struct counted *c, int k)
{
    uint32_t one = 1;
    void *params[] = {&c->word_on_device, &one, &c->cycles};
    unsigned int block = 32 * (1 + ex_hash((uint32_t)k) % 8);
    CHECK(cuLaunchKernel(c->spin.kernel, 1, 1, 1, block, 1, 1, 0, c->stream, params, NULL));
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void measure(struct counted *c, int ops, uint32_t launches)
{
    uint32_t *ahead = calloc(launches, sizeof *ahead), half = launches / 2;
    double start = ex_now_us(), longest = 0;
    if (!ahead) {
        perror("calloc");
        exit(1);
    }
    for (uint32_t i = 0; i < launches; i++) {
        double begun = ex_now_us();
        launch(c, (int)(i % (uint32_t)ops));
        double took = ex_now_us() - begun;
        ahead[i] = i + 1 - *c->word;
        longest = i >= half && took > longest ? took : longest;
    }
    CHECK(cuStreamSynchronize(c->stream));
    double us = (ex_now_us() - start) / launches;
    if (*c->word != launches) {
        fprintf(stderr, "ahead: %u kernels ran, and not %u\n", *c->word, launches);
        exit(1);
    }
    qsort(ahead + half, launches - half, sizeof *ahead, by_value);
    printf("MEASURED launches that wait for the GPU: most %u ops, median %u, the longest launch "
           "%.0f us, a kernel %.1f us\n",
           ahead[launches - 1], ahead[half + (launches - half) / 2], longest, us);
    free(ahead);
}

int main(int argc, char **argv)
{
    struct counted c = {0};
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: ahead OPS [US [LAUNCHES]]\n");
        return 2;
    }
    int ops = (int)ex_number("OPS", argv[1], 1);
    long us = argc > 2 ? ex_number("US", argv[2], 1) : 100;
    long launches = argc > 3 ? ex_number("LAUNCHES", argv[3], 2) : 10000;
    spin_start(&c.spin);
    c.cycles = (long long)((double)us * driver_cycles_per_us());
    CHECK(cuStreamCreate(&c.stream, CU_STREAM_NON_BLOCKING));
    void *word;
    CHECK(cuMemHostAlloc(&word, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&c.word_on_device, word, 0));
    c.word = word;
    *c.word = 0;
    measure(&c, ops, (uint32_t)launches);
    CHECK(cuMemFreeHost(word));
    CHECK(cuStreamDestroy(c.stream));
    spin_stop(&c.spin);
    return 0;
}
