"""torch.compile: inference and training steps of one small network, in the mode that --mode names;
"reduce-overhead" has CUDA graphs of its own."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch._dynamo  # noqa: F401  loaded before CUDA is touched, as is what comes with it
import torch._inductor  # noqa: F401
from torch import nn

import pace

args = pace.arguments(40, mode="default")
digest = pace.new_digest()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(128, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 256),
                      nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(8, 32, 128, device="cuda")
labels = torch.randint(0, 10, (8, 32), device="cuda")
infer = torch.compile(model, mode=args.mode)
loss_of = torch.compile(lambda x, y: nn.functional.cross_entropy(model(x), y), mode=args.mode)


def repetition(iterations):
    for i in range(iterations):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            pace.add(digest, infer(inputs[i % 8]).cpu())
    for i in range(iterations):
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs[i % 8], labels[i % 8])
        loss.backward()
        optimizer.step()
        pace.add(digest, loss.detach().cpu())
    torch.cuda.synchronize()


def finish():
    for parameter in model.parameters():
        pace.add(digest, parameter.cpu())


pace.run("compiled_" + args.mode, args, repetition, digest, finish)
