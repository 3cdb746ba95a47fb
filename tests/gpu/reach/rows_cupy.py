"""Rows in CuPy."""

import cupy as cp
import numpy as np

from loop import Loop

SIZE = 4096


def loop(step, *arrays):
    return Loop(step, lambda: cp.cuda.get_current_stream().synchronize(), lambda: [cp.asnumpy(a) for a in arrays])


def values(*shape, dtype=cp.float32):
    return cp.asarray(np.random.default_rng(1).standard_normal(shape).astype(dtype))


def elementwise():
    x, rest, total = values(SIZE), values(8, SIZE), cp.zeros(SIZE, dtype=cp.float32)

    def step(i):
        for _ in range(3):
            y = cp.tanh(x * 0.75 + rest[i % 8])
            y = cp.where(y > 0, y, 0.5 * y) + cp.abs(y).mean()
            cp.maximum(y - y.sum() / SIZE, -1.0, out=x)
        total[...] += x
    return loop(step, x, total)


def raw():
    own = cp.RawKernel(r"""
extern "C" __global__ void scale_and_add(float *data, float factor, float more, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = data[i] * factor + more;
}""", "scale_and_add")
    x = values(SIZE)

    def step(_):
        for k in range(20):
            # Two of them add a tenth: no step is ever forgotten, and none is lost unseen.
            factor, more = ((1.25, 0.5), (0.8, -0.3))[k % 2]
            own((16,), (256,), (x, cp.float32(factor), cp.float32(more), cp.int32(SIZE)))
    return loop(step, x)


def pool():
    """Copies and fills of memory of the driver's pool, without an allocation in the step."""
    cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    own = cp.RawKernel(r"""
extern "C" __global__ void fold(float *x, const float *copied, const float *filled, float more, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) x[i] = 0.5f * x[i] - 0.25f * copied[i] + filled[i] + more;
}""", "fold")
    x, copied, filled = values(SIZE), values(SIZE), values(SIZE)

    def step(i):
        stream = cp.cuda.get_current_stream()
        for k in range(6):
            copied.data.copy_from_device_async(x.data, x.nbytes, stream)
            own((16,), (256,), (x, copied, filled, cp.float32(0.01 * (k + i % 3)), cp.int32(SIZE)))
            filled.data.memset_async(0, filled.nbytes, stream)
    return loop(step, x, copied)


def fft():
    turn = cp.exp(1j * values(64, 128)).astype(cp.complex64)
    x = values(64, 128).astype(cp.complex64)

    def step(_):
        for _ in range(4):
            x[...] = cp.fft.ifft2(cp.fft.fft2(x) * turn)
            x[...] = x * cp.exp(-0.1j * cp.abs(x) ** 2)
    return loop(step, x)


def linalg():
    one, start, total = 48 * cp.eye(48, dtype=cp.float32), values(8, 48, 48), cp.zeros((48, 48), dtype=cp.float32)

    def step(i):
        spd = start[i % 8] @ start[i % 8].T + one
        y = cp.linalg.solve(spd, start[i % 8]) + cp.linalg.cholesky(spd) / 48
        y = y + cp.linalg.qr(spd)[1] / 48
        total[...] += y + cp.linalg.eigvalsh(spd) / 100
    return loop(step, total)


def sparse_cg():
    """Conjugate gradients by cupyx, which reads back its residual."""
    from cupyx.scipy.sparse import diags
    from cupyx.scipy.sparse.linalg import cg
    matrix = diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(SIZE, SIZE), format="csr", dtype=cp.float64)
    sides, total = values(8, SIZE, dtype=cp.float64), cp.zeros(SIZE)

    def step(i):
        total[...] += cg(matrix, sides[i % 8], maxiter=10)[0]
    return loop(step, total)
