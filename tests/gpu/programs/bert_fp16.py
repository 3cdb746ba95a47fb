"""A BERT of 6 layers with random weights, in fp16; the program waits for each step."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import BertConfig, BertModel

import pace

args = pace.arguments(40)
digest = pace.new_digest()
torch.manual_seed(1)
model = BertModel(BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4,
                             intermediate_size=512)).eval().cuda().half()
texts = [torch.randint(0, 1000, (2, 64), device="cuda") for _ in range(4)]
mask = torch.ones(2, 64, device="cuda", dtype=torch.long)


@torch.no_grad()
def repetition(iterations):
    for i in range(iterations):
        found = model(input_ids=texts[i % 4], attention_mask=mask).last_hidden_state
        torch.cuda.synchronize()
    pace.add(digest, found.float().cpu())


pace.run("bert_fp16", args, repetition, digest)
