/*
 * ownkernels.cu - the library's own kernels. A memset node costs a graph launch 1.6 us on the host,
 * a kernel node nothing (measured), so memsets and small copies in a sequence become launches of
 * these. They touch no byte outside of what they were asked for. Fences stand between kernels.
 */

/*
 * `pattern` holds the element, repeated to four bytes. Rows begin at multiples of the element's size
 * (the driver refuses others), so a slot of 16 bytes that begins at a multiple of 16 holds the pattern
 * in phase.
 */
extern "C" __global__ void ag_fill(unsigned char *dst, unsigned long long pitch,
                                   unsigned long long width, unsigned long long height,
                                   unsigned int pattern)
{
    unsigned long long row = (unsigned long long)blockIdx.y * blockDim.y + threadIdx.y;
    for (; row < height; row += gridDim.y * blockDim.y) {
        unsigned char *begin = dst + row * pitch, *end = begin + width;
        unsigned char *slot = (unsigned char *)((unsigned long long)begin & ~15ull);
        slot += 16 * ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x);
        for (; slot < end; slot += 16ull * gridDim.x * blockDim.x) {
            if (slot >= begin && slot + 16 <= end) {
                *(uint4 *)slot = make_uint4(pattern, pattern, pattern, pattern);
                continue;
            }
            for (int i = 0; i < 16; i++)
                if (slot + i >= begin && slot + i < end)
                    slot[i] = (unsigned char)(pattern >> (8 * ((slot + i - begin) & 3)));
        }
    }
}

/* Copies whole words that are aligned on both sides, and single bytes before and behind them. `dst`
 * and `src` differ by a multiple of the word's size. There are at least 16 threads. */
template <typename word>
static __device__ void copy_words(unsigned char *dst, const unsigned char *src,
                                  unsigned long long bytes)
{
    const unsigned long long size = sizeof(word);
    unsigned long long thread = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long head = (0 - (unsigned long long)dst) & (size - 1);
    if (head > bytes)
        head = bytes;
    unsigned long long words = (bytes - head) / size, tail = head + words * size;
    word *to = (word *)(dst + head);
    const word *from = (const word *)(src + head);
    for (unsigned long long i = thread; i < words; i += (unsigned long long)gridDim.x * blockDim.x)
        to[i] = from[i];
    if (thread < head)
        dst[thread] = src[thread];
    if (thread < bytes - tail)
        dst[tail + thread] = src[tail + thread];
}

/* Of a few bytes each word that divides their number is written at once: the host may be polling it
 * (core/read_back.c). */
static __device__ void copy_row(unsigned char *dst, const unsigned char *src,
                                unsigned long long bytes)
{
    unsigned long long apart = (unsigned long long)dst - (unsigned long long)src;
    if (bytes <= 256)
        apart |= bytes;
    if (!(apart & 15))
        copy_words<uint4>(dst, src, bytes);
    else if (!(apart & 7))
        copy_words<unsigned long long>(dst, src, bytes);
    else if (!(apart & 3))
        copy_words<unsigned int>(dst, src, bytes);
    else if (!(apart & 1))
        copy_words<unsigned short>(dst, src, bytes);
    else
        copy_words<unsigned char>(dst, src, bytes);
}

/* `depth` times `height` rows of `bytes` bytes, which do not overlap. */
extern "C" __global__ void ag_copy(unsigned char *dst, const unsigned char *src,
                                   unsigned long long bytes, unsigned long long height,
                                   unsigned long long depth, unsigned long long dst_pitch,
                                   unsigned long long src_pitch, unsigned long long dst_slice,
                                   unsigned long long src_slice)
{
    for (unsigned long long z = blockIdx.z; z < depth; z += gridDim.z) {
        unsigned long long y = (unsigned long long)blockIdx.y * blockDim.y + threadIdx.y;
        for (; y < height; y += gridDim.y * blockDim.y)
            copy_row(dst + z * dst_slice + y * dst_pitch, src + z * src_slice + y * src_pitch,
                     bytes);
    }
}

/* What was written before comes before what is written behind it, for the host and other devices as
 * well. One thread. */
extern "C" __global__ void ag_fence(void)
{
    __threadfence_system();
}
