"""Rows in Triton: a chain of small kernels, with and without programmatic dependent launch."""

import torch
import triton
import triton.language as tl

from rows_torch import begin, loop


@triton.jit
def scale_and_add(data, factor, more, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(data + at, mask=at < size)
    tl.store(data + at, value * factor + more, mask=at < size)


@triton.jit
def scale_and_add_early(data, factor, more, size, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(data + at, mask=at < size)
    tl.store(data + at, value * factor + more, mask=at < size)
    tl.extra.cuda.gdc_launch_dependents()


def chain(kind):
    begin()
    x = torch.linspace(-1.0, 1.0, 4096, device="cuda")

    def step(i):
        for k in range(20):
            # Two of them add a tenth: no step is ever forgotten, and none is lost unseen.
            factor, more = ((1.25, 0.5), (0.8, -0.3))[k % 2]
            if kind == "early":
                scale_and_add_early[(16,)](x, factor, more, 4096, BLOCK=256, launch_pdl=True)
            else:
                scale_and_add[(16,)](x, factor, more, 4096, BLOCK=256)
    return loop(step, lambda: [x])
