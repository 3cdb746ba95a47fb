"""Token by token decoding with transformers' generate(): a small Llama with random weights. One
iteration is one new token; shapes grow with each."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import pace

args = pace.arguments(64)
digest = pace.new_digest()
torch.manual_seed(1)
config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
                     bos_token_id=1, eos_token_id=None, pad_token_id=0)
model = LlamaForCausalLM(config).eval().cuda()
prompt = torch.arange(2, 18, device="cuda").unsqueeze(0)


@torch.no_grad()
def repetition(iterations):
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                         max_new_tokens=iterations, min_new_tokens=iterations,
                         return_dict_in_generate=True, output_logits=True)
    pace.add(digest, out.sequences.cpu(), torch.stack(out.logits).float().cpu())


pace.run("decode", args, repetition, digest)
