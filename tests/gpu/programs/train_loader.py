"""Training fed by a DataLoader: worker processes made by fork, batches put in pinned memory by a thread,
copied to the GPU without waiting. One iteration is one pass over the data."""

import training  # first
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import pace


class Noise(Dataset):
    """Values that depend on their place alone, whichever worker makes them."""

    def __len__(self):
        return 16 * 64

    def __getitem__(self, at):
        generator = torch.Generator().manual_seed(at)
        return torch.randn(64, generator=generator), at % 10


args = pace.arguments(2)
digest = pace.new_digest()
training.begin()
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(),
                      nn.Linear(256, 10)).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(Noise(), batch_size=64, shuffle=True, num_workers=2, pin_memory=True,
                    generator=torch.Generator().manual_seed(2), multiprocessing_context="fork")


def repetition(iterations):
    for _ in range(iterations):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = training.step(model, optimizer, x, y)
        pace.add(digest, loss.cpu())
    torch.cuda.synchronize()


def finish():
    training.add_weights(digest, model)


pace.run("train_loader", args, repetition, digest, finish)
