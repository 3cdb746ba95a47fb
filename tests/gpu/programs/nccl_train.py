"""Data-parallel training on two GPUs: each process computes gradients and all-reduces them by NCCL."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import pace


def train(rank, args, rendezvous):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + rendezvous, rank=rank, world_size=2,
                            device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                          nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    torch.manual_seed(100 + rank)
    inputs = torch.randn(64, 128, device="cuda")
    labels = torch.randint(0, 10, (64,), device="cuda")
    digest = pace.new_digest()

    def repetition(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(inputs), labels).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
        torch.cuda.synchronize()

    def finish():
        for parameter in model.parameters():
            pace.add(digest, parameter.cpu())

    if rank == 0:
        pace.run("nccl_train", args, repetition, digest, finish)
    else:
        for _ in range(args.reps + 1):
            repetition(args.iters)
        finish()
    # Both processes must have arrived at the same weights; the first one says so.
    other = [None, None]
    dist.all_gather_object(other, digest.hexdigest())
    dist.destroy_process_group()
    if other[0] != other[1]:
        raise SystemExit("the two processes ended with different weights")


def main():
    args = pace.arguments(50)
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = os.path.join(folder, "rendezvous")
        # The first rank stays in this process, which owns stdin and stdout.
        second = mp.get_context("spawn").Process(target=train, args=(1, args, rendezvous))
        second.start()
        train(0, args, rendezvous)
        second.join()
        if second.exitcode != 0:
            raise SystemExit(f"the second process ended with {second.exitcode}")


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    main()
