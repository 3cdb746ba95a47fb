/*
 * fill.cu - the library's own fill kernel. A memset node costs a graph launch 1.6 us on the host, a
 * kernel node nothing (measured), so memsets in a sequence become launches of this.
 *
 * `pattern` holds the element, repeated to four bytes. Rows begin at multiples of the element's size
 * (the driver refuses others), so a slot of 16 bytes that begins at a multiple of 16 holds the pattern
 * in phase.
 */
extern "C" __global__ void ag_fill(unsigned char *dst, unsigned long long pitch,
                                   unsigned long long width, unsigned long long height,
                                   unsigned int pattern)
{
    for (unsigned long long row = blockIdx.y; row < height; row += gridDim.y) {
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
