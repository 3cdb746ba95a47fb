"""Training of a small convolutional network in mixed precision: autocast to fp16, a GradScaler (which
reads back whether gradients overflowed, once a step), dropout and momentum."""

import training  # first
import torch
from torch import nn

import pace

args = pace.arguments(40)
digest = pace.new_digest()
training.begin()
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 8 * 8, 10)).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
# A first scale that overflows at once: the steps in which nothing may change are among those compared.
scaler = torch.amp.GradScaler("cuda", init_scale=2.0 ** 30, growth_interval=20)
inputs = torch.randn(8, 32, 3, 32, 32, device="cuda")
labels = torch.randint(0, 10, (8, 32), device="cuda")


def repetition(iterations):
    for i in range(iterations):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs[i % 8]), labels[i % 8])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if i % 5 == 0:
            pace.add(digest, loss.cpu())
    torch.cuda.synchronize()
    digest.update(str(scaler.get_scale()).encode())


def finish():
    training.add_weights(digest, model)


pace.run("train_amp", args, repetition, digest, finish)
