#!/usr/bin/env python3
"""A PyTorch program that runs long, through phases that change. Options and output are those of soak.c.

A phase depends on nothing that was before it: random numbers start anew, models are made and dropped.
"""

import argparse
import gc
import hashlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))
import training as trainer  # noqa: E402  first
import torch  # noqa: E402
from torch import nn  # noqa: E402

import by_hand  # noqa: E402

GPU = torch.device("cuda")


class Clock:
    """Says once a second how much of the GPU's memory is in use."""
    next = 0.0

    def tick(self):
        if time.monotonic() >= self.next:
            free, total = torch.cuda.mem_get_info()
            print(f"GPU {total - free}", flush=True)
            self.next = time.monotonic() + 1.0


clock = Clock()
side = None  # one further stream for all: cuBLAS keeps a workspace for each that it meets


def mlp(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers).to(GPU)


@torch.no_grad()
def batch_sizes(steps):
    model = mlp(256, 8).eval()
    inputs = torch.randn(64, 256, device=GPU)
    for i in range(steps):
        out = model(inputs[:8 + 8 * (i // 25 % 5)])
        if i % 25 == 24:
            yield out
        clock.tick()


def training(steps, dtype=None):
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(),
                          nn.Linear(256, 10)).to(GPU).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(16, 64, 128, device=GPU)
    labels = torch.randint(0, 10, (16, 64), device=GPU)
    for i in range(steps // 2):
        loss = trainer.step(model, optimizer, inputs[i % 16], labels[i % 16],
                            torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None))
        if i % 25 == 24:
            yield loss
        clock.tick()
    for parameter in model.parameters():
        yield parameter


def training_bf16(steps):
    yield from training(steps, torch.bfloat16)


@torch.no_grad()
def sequence_lengths(steps):
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 2,
                                  enable_nested_tensor=False).to(GPU).eval()
    inputs = torch.randn(2, 128, 128, device=GPU)
    for i in range(steps // 2):
        out = layer(inputs[:, :16 + 8 * (i // 10 % 12)])
        if i % 10 == 9:
            yield out
        clock.tick()


@torch.no_grad()
def resolutions(steps):
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(32, 10)).to(GPU).eval()
    for i in range(steps // 2):
        out = model(torch.full((2, 3, 32 + 16 * (i // 20 % 4), 64), 0.01 * (i % 20), device=GPU))
        if i % 20 == 19:
            yield out
        clock.tick()


@torch.no_grad()
def two_streams(steps):
    model = mlp(128, 4).eval()
    inputs = torch.randn(16, 128, device=GPU)
    for i in range(steps // 2):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            there = model(inputs * (i % 7))
        here = model(inputs + i % 5)
        torch.cuda.current_stream().wait_stream(side)
        there.record_stream(torch.cuda.current_stream())
        out = here + there
        if i % 20 == 19:
            yield out
        clock.tick()


@torch.no_grad()
def graph_of_its_own(steps):
    model = mlp(128, 6).eval()
    static = torch.randn(16, 128, device=GPU)
    graph, out = by_hand.graph_of(lambda: model(static), side)
    for i in range(steps):
        static.fill_(0.1 * (i % 10))
        graph.replay()
        again = out * 2 + static
        if i % 50 == 49:
            yield again
        clock.tick()


@torch.no_grad()
def token_by_token(steps):
    """What is decided from the last output is read by the host, and the cache grows with every token."""
    embed, head = nn.Embedding(500, 128).to(GPU), nn.Linear(128, 500).to(GPU)
    key, value, query = (nn.Linear(128, 128).to(GPU) for _ in range(3))
    for _ in range(max(1, steps // 80)):
        token, keys, values, said = 1, [], [], []
        for _ in range(40):
            x = embed(torch.tensor([token], device=GPU))
            keys.append(key(x))
            values.append(value(x))
            attention = torch.softmax(query(x) @ torch.cat(keys).T / 11.3, -1) @ torch.cat(values)
            token = int(head(attention + x).argmax())
            said.append(token)
            clock.tick()
        yield torch.tensor(said)


PHASES = [batch_sizes, training, sequence_lengths, resolutions, two_streams, graph_of_its_own, token_by_token,
          training_bf16]


def run_phase(number, steps):
    digest = hashlib.sha256()
    torch.manual_seed(number + 1)
    for tensor in PHASES[number](steps):
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    torch.cuda.synchronize()
    gc.collect()
    if number % 2:
        torch.cuda.empty_cache()
    print(f"PHASE {number} {digest.hexdigest()[:16]} {PHASES[number].__name__}", flush=True)


def main():
    global side
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--cycles", type=int, default=0)
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)
    side = torch.cuda.Stream()
    end, done = time.monotonic() + args.seconds, 0
    while done < args.cycles * len(PHASES) if args.cycles else time.monotonic() < end:
        run_phase(done % len(PHASES), args.steps)
        done += 1
    print(f"END {done}", flush=True)


if __name__ == "__main__":
    main()
