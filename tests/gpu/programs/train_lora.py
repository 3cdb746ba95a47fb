"""LoRA training (peft) of a small Llama with random weights, in bf16."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import training  # first
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

import pace

args = pace.arguments(20)
digest = pace.new_digest()
training.begin()
model = LlamaForCausalLM(LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                                     num_attention_heads=4, num_key_value_heads=4)).cuda().to(torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])).train()
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-3)
texts = [torch.randint(0, 1000, (2, 32), device="cuda") for _ in range(4)]


def repetition(iterations):
    for i in range(iterations):
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=texts[i % 4], labels=texts[i % 4]).loss
        loss.backward()
        optimizer.step()
    pace.add(digest, loss.detach().float().cpu())
    torch.cuda.synchronize()


def finish():
    for p in trained:
        pace.add(digest, p.detach().float().cpu())


pace.run("train_lora", args, repetition, digest, finish)
