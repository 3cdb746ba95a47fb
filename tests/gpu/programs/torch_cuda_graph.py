"""A program that uses torch.cuda.graph itself, with eager work around each replay."""

import torch
from torch import nn

import by_hand
import pace

args = pace.arguments(200)
digest = pace.new_digest()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                      nn.Linear(256, 256)).eval().cuda()
static_input = torch.randn(1, 256, device="cuda")

with torch.no_grad():
    graph, static_output = by_hand.graph_of(lambda: model(static_input))


@torch.no_grad()
def repetition(iterations):
    for i in range(iterations):
        with pace.launches:
            static_input.normal_().mul_(1.0 / (1 + i % 5))
            graph.replay()
            y = torch.softmax(static_output, 1) + 0.5 * static_output.abs()
        pace.add(digest, y.cpu())


pace.run("torch_cuda_graph", args, repetition, digest)
