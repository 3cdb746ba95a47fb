"""Inference of one image model in PyTorch's eager mode, batch 2, random weights: --model is a name of
torchvision, or of timm with "timm:" before it."""

import importlib
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import pace

args = pace.arguments(40, model="mobilenet_v3_small")
digest = pace.new_digest()
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True


def build(name):
    if name.startswith("timm:"):
        return importlib.import_module("timm").create_model(name[len("timm:"):], pretrained=False)
    return getattr(importlib.import_module("torchvision").models, name)(weights=None)


model = build(args.model).eval().cuda()
x = torch.randn(2, 3, 224, 224, device="cuda")


@torch.no_grad()
def repetition(iterations):
    x.mul_(0.99)
    for _ in range(iterations):
        pace.add(digest, model(x).cpu())


pace.run(args.model, args, repetition, digest)
