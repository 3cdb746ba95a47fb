"""Training with dropout and Adam. 8 repetitions of 70 steps: the weights after 560 steps are compared."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch._dynamo  # noqa: F401  the optimizer would load it in its first step
from torch import nn

import pace

args = pace.arguments(70, "--graph")
digest = pace.new_digest()
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = nn.Sequential(
    nn.Linear(128, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 10)).cuda().train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=args.graph)
inputs = torch.randn(32, 64, 128, device="cuda")
labels = torch.randint(0, 10, (32, 64), device="cuda")
steps = 0


def step(x, y):
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def captured():
    """The whole step as somebody captures it by hand: input and labels are copied to where the graph
    reads them. The steps before the capture train too, so that the weights are others."""
    x, y = inputs[0].clone(), labels[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step(x, y)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(x, y)

    def replay(new_x, new_y):
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        return loss

    return replay


if args.graph:
    step = captured()


def repetition(iterations):
    global steps
    for _ in range(iterations):
        with pace.launches:
            loss = step(inputs[steps % 32], labels[steps % 32])
        steps += 1
        if steps % 10 == 0:
            pace.add(digest, loss.cpu())
    torch.cuda.synchronize()


def finish():
    for parameter in model.parameters():
        pace.add(digest, parameter.cpu())


pace.run("train_step", args, repetition, digest, finish)
