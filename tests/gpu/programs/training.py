"""What programs that train in PyTorch have in common: arithmetic that is the same in every run, one step,
and the weights at the end. Imported before torch: cuBLAS reads its setting when it starts."""

import contextlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch._dynamo  # noqa: F401  the optimizer would load it in its first step
from torch import nn

import pace


def begin():
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)


def step(model, optimizer, x, y, forward=contextlib.nullcontext()):
    """`forward`: what the forward pass runs in."""
    optimizer.zero_grad(set_to_none=True)
    with forward:
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def add_weights(digest, model):
    """Buffers too, as those of a batch norm."""
    for value in model.state_dict().values():
        pace.add(digest, value.cpu())
