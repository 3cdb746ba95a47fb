"""Training with dropout and Adam. 8 repetitions of 70 steps: the weights after 560 steps are compared."""

import training  # first
import torch
from torch import nn

import by_hand
import pace

args = pace.arguments(70, "--graph")
digest = pace.new_digest()
training.begin()
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
    return training.step(model, optimizer, x, y)


def captured():
    """The whole step as somebody captures it by hand: input and labels are copied to where the graph
    reads them. The steps before the capture train too, so that the weights are others."""
    x, y = inputs[0].clone(), labels[0].clone()
    graph, loss = by_hand.graph_of(lambda: training.step(model, optimizer, x, y))

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
    training.add_weights(digest, model)


pace.run("train_step", args, repetition, digest, finish)
