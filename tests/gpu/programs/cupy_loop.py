"""CuPy: element-wise operations and a user's own kernel, a synchronisation after each step."""

import cupy as cp

import pace

args = pace.arguments(200)
digest = pace.new_digest()
own = cp.RawKernel(r"""
extern "C" __global__ void scale_and_add(float *data, float factor, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = data[i] * factor + 0.25f;
}""", "scale_and_add")
x = cp.linspace(-1.0, 1.0, 4096, dtype=cp.float32)
start = x.copy()


def repetition(iterations):
    global x
    x += start
    for _ in range(iterations):
        for k in range(5):
            own((16,), (256,), (x, cp.float32(0.5 + 0.05 * k), cp.int32(4096)))
            x *= 0.75
            y = x + 0.125
            x = cp.maximum(y, -x)
        cp.cuda.get_current_stream().synchronize()
    pace.add(digest, cp.asnumpy(x))


pace.run("cupy_loop", args, repetition, digest)
