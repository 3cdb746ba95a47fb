"""ResNet-18 inference by TorchScript, traced and frozen, batch 1, random weights."""

import torch
import torchvision

import by_hand
import pace

args = pace.arguments(100, "--graph")
digest = pace.new_digest()
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
model = torchvision.models.resnet18(weights=None).eval().cuda()
x = torch.randn(1, 3, 224, 224, device="cuda")
with torch.no_grad():
    script = torch.jit.freeze(torch.jit.trace(model, x))
if args.graph:
    script = by_hand.captured(script, x)


@torch.no_grad()
def repetition(iterations):
    x.mul_(0.99)
    for _ in range(iterations):
        with pace.launches:
            y = script(x)
        pace.add(digest, y.cpu())


pace.run("resnet18_script", args, repetition, digest)
