"""20 small Triton kernels a step, a synchronisation after each step."""

import torch
import triton
import triton.language as tl

import by_hand
import pace

args = pace.arguments(200, "--graph")
digest = pace.new_digest()


@triton.jit
def scale_and_add(data, factor, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(data + at, mask=inside)
    tl.store(data + at, value * factor + 0.5, mask=inside)


x = torch.linspace(-1.0, 1.0, 4096, device="cuda")
FACTORS = [0.5 + 0.02 * k for k in range(20)]


def step(_=None):
    for factor in FACTORS:
        scale_and_add[(16,)](x, factor, 4096, BLOCK=256)


if args.graph:
    start = x.clone()
    step = by_hand.captured(step, None)
    x.copy_(start)


def repetition(iterations):
    for _ in range(iterations):
        with pace.launches:
            step(None)
        torch.cuda.synchronize()
    pace.add(digest, x.cpu())
    x.add_(torch.linspace(-1.0, 1.0, 4096, device="cuda"))


pace.run("triton_loop", args, repetition, digest)
