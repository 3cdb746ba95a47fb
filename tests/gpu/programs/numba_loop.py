"""20 small numba kernels a step, a synchronisation after each step."""

import warnings

import numpy as np

import old_names  # noqa: F401  before numba
from numba import cuda

import pace

warnings.filterwarnings("ignore")  # the grid is small on purpose
args = pace.arguments(100)
digest = pace.new_digest()


@cuda.jit
def scale_and_add(data, factor):
    i = cuda.grid(1)
    if i < data.size:
        data[i] = data[i] * factor + np.float32(0.5)


host = np.linspace(-1.0, 1.0, 4096, dtype=np.float32)
x = cuda.to_device(host)
FACTORS = [np.float32(0.5 + 0.02 * k) for k in range(20)]


def repetition(iterations):
    x.copy_to_device(host)
    for _ in range(iterations):
        with pace.launches:
            for factor in FACTORS:
                scale_and_add[16, 256](x, factor)
        cuda.synchronize()
    pace.add(digest, x.copy_to_host())


pace.run("numba_loop", args, repetition, digest)
