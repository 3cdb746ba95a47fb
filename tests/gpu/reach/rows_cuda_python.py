"""Rows in cuda.core: NVIDIA's own Python interface to the driver."""

import numpy as np

try:
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
except ImportError:
    from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

from loop import Loop

SIZE, KERNELS = 4096, 20
SOURCE = r"""
extern "C" __global__ void fill(float *data, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = (float)(i % 97) / 97.0f;
}
extern "C" __global__ void scale_and_add(float *data, float factor, float more, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = data[i] * factor + more;
}"""


def core():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    module = Program(SOURCE, code_type="c++", options=options).compile("cubin")
    fill, own = (module.get_kernel(name) for name in ("fill", "scale_and_add"))
    config = LaunchConfig(grid=SIZE // 256, block=256)
    memory = device.allocate(SIZE * 4, stream=stream)
    launch(stream, config, fill, memory, np.int32(SIZE))

    def step(_):
        for k in range(KERNELS):
            # Two of them add a tenth: no step is ever forgotten, and none is lost unseen.
            factor, more = ((1.25, 0.5), (0.8, -0.3))[k % 2]
            launch(stream, config, own, memory, np.float32(factor), np.float32(more), np.int32(SIZE))

    def results():
        # Read by the driver: this release's ways to copy to the host ask for other memory resources.
        from cuda.bindings import driver
        host = np.zeros(SIZE, dtype=np.float32)
        status = driver.cuMemcpyDtoH(host.ctypes.data, int(memory.handle), host.nbytes)[0]
        if status != driver.CUresult.CUDA_SUCCESS:
            raise SystemExit(f"copy: {status}")
        return [host]
    return Loop(step, stream.sync, results)
