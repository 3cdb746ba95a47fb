"""Inference of 20 small linear layers in PyTorch's eager mode, batch 1. --openmp: before each step all processors work for a while."""

import os

import torch
from torch import nn

import by_hand
import pace

args = pace.arguments(200, "--graph", "--openmp")
digest = pace.new_digest()
torch.manual_seed(1)
layers = []
for _ in range(20):
    layers += [nn.Linear(256, 256), nn.ReLU()]
model = nn.Sequential(*layers).eval().cuda()
x = torch.randn(1, 256, device="cuda")
if args.graph:
    model = by_hand.captured(model, x)


if args.openmp:
    host = torch.randn(256, 256)
    torch.set_num_threads(len(os.sched_getaffinity(0)))


@torch.no_grad()
def repetition(iterations):
    x.mul_(0.99)
    for _ in range(iterations):
        if args.openmp:
            pace.add(digest, (host @ host)[0])
        with pace.launches:
            y = model(x)
        pace.add(digest, y.cpu())


pace.run("mlp20", args, repetition, digest)
