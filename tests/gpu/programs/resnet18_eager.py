"""ResNet-18 inference in PyTorch's eager mode, batch 1, random weights."""

import torch
import torchvision

import by_hand
import pace

args = pace.arguments(60, "--graph")
digest = pace.new_digest()
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
model = torchvision.models.resnet18(weights=None).eval().cuda()
x = torch.randn(1, 3, 224, 224, device="cuda")
if args.graph:
    model = by_hand.captured(model, x)


@torch.no_grad()
def repetition(iterations):
    x.mul_(0.99)
    for _ in range(iterations):
        with pace.launches:
            y = model(x)
        pace.add(digest, y.cpu())


pace.run("resnet18_eager", args, repetition, digest)
