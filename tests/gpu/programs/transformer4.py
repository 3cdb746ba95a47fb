"""A transformer encoder of 4 layers, batch 1, in eager mode or (--script) traced by TorchScript."""

import torch
from torch import nn

import by_hand
import pace

args = pace.arguments(80, "--script", "--graph")
digest = pace.new_digest()
torch.manual_seed(1)
layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval().cuda()
x = torch.randn(1, 32, 256, device="cuda")
if args.script:
    with torch.no_grad():
        model = torch.jit.freeze(torch.jit.trace(model, x, check_trace=False))
if args.graph:
    model = by_hand.captured(model, x)


@torch.no_grad()
def repetition(iterations):
    x.mul_(0.99)
    for _ in range(iterations):
        with pace.launches:
            y = model(x)
        pace.add(digest, y.cpu())


pace.run("transformer4_script" if args.script else "transformer4", args, repetition, digest)
