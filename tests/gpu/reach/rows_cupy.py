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
    x, rest = values(SIZE), values(8, SIZE)

    def step(i):
        for _ in range(3):
            y = cp.tanh(x * 0.75 + rest[i % 8])
            y = cp.where(y > 0, y, 0.5 * y) + cp.abs(y).mean()
            cp.maximum(y - y.sum() / SIZE, -1.0, out=x)
    return loop(step, x)


def raw():
    own = cp.RawKernel(r"""
extern "C" __global__ void scale_and_add(float *data, float factor, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = data[i] * factor + 0.25f;
}""", "scale_and_add")
    x = values(SIZE)

    def step(_):
        for k in range(20):
            own((16,), (256,), (x, cp.float32(0.5 + 0.02 * k), cp.int32(SIZE)))
    return loop(step, x)


def fft():
    turn = cp.exp(1j * values(64, 128)).astype(cp.complex64)
    x = values(64, 128).astype(cp.complex64)

    def step(_):
        for _ in range(4):
            x[...] = cp.fft.ifft2(cp.fft.fft2(x) * turn)
            x[...] = x * cp.exp(-0.1j * cp.abs(x) ** 2)
    return loop(step, x)


def linalg():
    one, start, x = 48 * cp.eye(48, dtype=cp.float32), values(8, 48, 48), values(48, 48)

    def step(i):
        spd = start[i % 8] @ start[i % 8].T + one
        y = cp.linalg.solve(spd, x) + cp.linalg.cholesky(spd) / 48
        y = y + cp.linalg.qr(spd)[1] / 48
        x[...] = 0.5 * x + y + cp.linalg.eigvalsh(spd) / 100
    return loop(step, x)


def sparse_cg():
    """Conjugate gradients by cupyx, which reads back its residual."""
    from cupyx.scipy.sparse import diags
    from cupyx.scipy.sparse.linalg import cg
    matrix = diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(SIZE, SIZE), format="csr", dtype=cp.float64)
    sides, x = values(8, SIZE, dtype=cp.float64), cp.zeros(SIZE)

    def step(i):
        x[...] = 0.5 * x + cg(matrix, sides[i % 8], maxiter=10)[0]
    return loop(step, x)
