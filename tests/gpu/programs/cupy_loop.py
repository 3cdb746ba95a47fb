"""CuPy: element-wise operations and a user's own kernel, a synchronisation after each step."""

import cupy as cp

import pace

args = pace.arguments(200, "--graph")
digest = pace.new_digest()
own = cp.RawKernel(r"""
extern "C" __global__ void scale_and_add(float *data, float factor, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) data[i] = data[i] * factor + 0.25f;
}""", "scale_and_add")
x = cp.linspace(-1.0, 1.0, 4096, dtype=cp.float32)
start = x.copy()


def step():
    """Leaves its temporary arrays to the caller."""
    temporary = []
    for k in range(5):
        own((16,), (256,), (x, cp.float32(0.5 + 0.05 * k), cp.int32(4096)))
        cp.multiply(x, 0.75, out=x)
        y, z = x + 0.125, -x
        cp.maximum(y, z, out=x)
        temporary += [y, z]
    return temporary


def captured(stream):
    """The step as somebody captures it by hand. What it computes before and in the capture is undone;
    the memory of the temporary arrays must stay as long as the graph."""
    step()
    stream.synchronize()
    stream.begin_capture()
    temporary = step()
    graph = stream.end_capture()
    x[...] = cp.linspace(-1.0, 1.0, 4096, dtype=cp.float32)
    stream.synchronize()
    return lambda keep=temporary: graph.launch(stream)


def main():
    stream = cp.cuda.Stream(non_blocking=True) if args.graph else cp.cuda.get_current_stream()
    with stream:
        cp.cuda.Device().synchronize()
        submit = captured(stream) if args.graph else step

        def repetition(iterations):
            cp.add(x, start, out=x)
            for _ in range(iterations):
                with pace.launches:
                    submit()
                stream.synchronize()
            pace.add(digest, cp.asnumpy(x))

        pace.run("cupy_loop", args, repetition, digest)


main()
