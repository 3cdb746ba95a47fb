/*
 * own_kernels.cpp - the library's own kernels, run by the host one thread after the other: exact
 * for every size and alignment, and no byte beside. The undefined-behaviour sanitizer finds words
 * that are not aligned. tests/gpu/pace/copies.c does the same on a GPU.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>

#define __global__
#define __device__
struct uint4 {
    unsigned int x, y, z, w;
} __attribute__((aligned(16)));
static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w)
{
    return {x, y, z, w};
}
static struct {
    unsigned int x, y, z;
} blockIdx, threadIdx, gridDim, blockDim;
static void __threadfence_system()
{
}
#include "capture/graphs/ownkernels.cu"

enum { BYTES = 9216, BEGIN = 32, MOST = 4097, WIDEST = 16 };

static unsigned char source[BYTES] __attribute__((aligned(64)));
static unsigned char target[BYTES] __attribute__((aligned(64)));
static unsigned char expected[BYTES];

/* Blocks of `threads` threads for one row, or of two rows if there are several. */
template <typename Kernel>
static void launch(unsigned int blocks, unsigned int rows, unsigned int threads, Kernel kernel)
{
    gridDim = {blocks, rows, rows};
    blockDim = {threads, rows > 1 ? 2u : 1u, 1};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < rows; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
                for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
                    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
                        kernel();
}

static void copy(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    ag_copy(dst, src, bytes, 1, 1, 0, 0, 0, 0);
}

static void begin()
{
    memset(target, 0xee, sizeof target);
    memset(expected, 0xee, sizeof expected);
}

static bool good(const char *what, size_t bytes, int to, int from)
{
    if (!memcmp(target, expected, sizeof target))
        return true;
    printf("%s of %zu bytes, %d and %d past a multiple of 16: wrong\n", what, bytes, to, from);
    return false;
}

static bool copies(size_t bytes, unsigned int blocks)
{
    for (int to = 0; to < WIDEST; to++)
        for (int from = 0; from < WIDEST; from++) {
            begin();
            memcpy(expected + BEGIN + to, source + from, bytes);
            launch(blocks, 1, 32, [=] { copy(target + BEGIN + to, source + from, bytes); });
            if (!good("a copy", bytes, to, from))
                return false;
        }
    return true;
}

/* Words that divide the number of bytes are written at once: one thread, which leaves what is not
 * in whole words to fifteen others, copies all. */
static bool copies_words(size_t bytes)
{
    size_t size = bytes & (0 - bytes);
    for (size_t at = 0; at < WIDEST; at += size) {
        begin();
        memcpy(expected + BEGIN + at, source + at, bytes);
        launch(1, 1, 1, [=] { copy(target + BEGIN + at, source + at, bytes); });
        if (!good("a copy by words", bytes, (int)at, (int)at))
            return false;
    }
    return true;
}

/* Two slices of seven rows, with other gaps on either side. */
static bool copies_rows(size_t bytes)
{
    const size_t to_pitch = bytes + 5, from_pitch = bytes + 3;
    const size_t to_slice = 8 * to_pitch, from_slice = 9 * from_pitch;
    for (int to = 0; to < WIDEST; to++) {
        begin();
        for (size_t z = 0; z < 2; z++)
            for (size_t y = 0; y < 7; y++)
                memcpy(expected + BEGIN + to + z * to_slice + y * to_pitch,
                       source + 1 + z * from_slice + y * from_pitch, bytes);
        for (unsigned int blocks = 1; blocks <= 3; blocks += 2) {
            launch(blocks, 2, 16, [=] {
                ag_copy(target + BEGIN + to, source + 1, bytes, 7, 2, to_pitch, from_pitch,
                        to_slice, from_slice);
            });
            if (!good("a copy of rows", bytes, to, 1))
                return false;
        }
    }
    return true;
}

/* Three rows; an element of `size` bytes. */
static bool fills(size_t elements, size_t size)
{
    const uint32_t value = 0x81c3e7f5, repeated = size == 1   ? 0xf5f5f5f5
                                                  : size == 2 ? 0xe7f5e7f5
                                                              : value;
    const size_t bytes = elements * size, pitch = bytes + 3 * size;
    for (size_t to = 0; to < WIDEST; to += size) {
        begin();
        for (size_t row = 0; row < 3; row++)
            for (size_t i = 0; i < elements; i++)
                memcpy(expected + BEGIN + to + row * pitch + i * size, &value, size);
        launch(2, 2, 32, [=] { ag_fill(target + BEGIN + to, pitch, bytes, 3, repeated); });
        if (!good("a fill", bytes, (int)to, 0))
            return false;
    }
    return true;
}

int main()
{
    bool all = true;
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)((uint32_t)i * 2654435761u >> 24);
    for (size_t bytes = 1; all && bytes <= MOST; bytes += bytes < 300 ? 1 : 61)
        all = copies(bytes, 1) && copies(bytes, 3);
    for (size_t bytes = 1; all && bytes <= 256; bytes++)
        all = copies_words(bytes);
    for (size_t bytes = 1; all && bytes <= 300; bytes++)
        all = copies_rows(bytes);
    for (size_t elements = 1; all && elements <= 300; elements++)
        all = fills(elements, 1) && fills(elements, 2) && fills(elements, 4);
    return all ? 0 : 1;
}
