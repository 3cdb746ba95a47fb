"""Training with dropout and Adam. 8 repetitions of 70 steps: the weights after 560 steps are compared."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn

import pace

args = pace.arguments(70)
digest = pace.new_digest()
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = nn.Sequential(
    nn.Linear(128, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(256, 10)).cuda().train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
inputs = torch.randn(32, 64, 128, device="cuda")
labels = torch.randint(0, 10, (32, 64), device="cuda")
steps = 0


def repetition(iterations):
    global steps
    for _ in range(iterations):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs[steps % 32]), labels[steps % 32])
        loss.backward()
        optimizer.step()
        steps += 1
        if steps % 10 == 0:
            pace.add(digest, loss.cpu())
    torch.cuda.synchronize()


def finish():
    for parameter in model.parameters():
        pace.add(digest, parameter.cpu())


pace.run("train_step", args, repetition, digest, finish)
