"""Token by token decoding with transformers' generate(): a small Llama with random weights. One
iteration is one new token; shapes grow with each. By hand (--graph) it is another program: a cache of
fixed size and a loop around one captured step, which has to find the tokens that generate() finds."""

import inspect
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import pace

args = pace.arguments(64, "--graph")
digest = pace.new_digest()
torch.manual_seed(1)
config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512,
                     bos_token_id=1, eos_token_id=None, pad_token_id=0)
model = LlamaForCausalLM(config).eval().cuda()
prompt = torch.arange(2, 18, device="cuda").unsqueeze(0)


def generated(iterations):
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                          max_new_tokens=iterations, min_new_tokens=iterations,
                          return_dict_in_generate=True, output_logits=True)


@torch.no_grad()
def repetition(iterations):
    out = generated(iterations)
    pace.add(digest, out.sequences.cpu(), torch.stack(out.logits).float().cpu())


class ByHand:
    """Decoding around one captured step, which writes its token where the next one reads it."""

    @torch.no_grad()
    def __init__(self, most):
        # Older releases want to be told what newer ones find out by themselves.
        told = {"max_batch_size": 1, "device": torch.device("cuda"), "dtype": torch.float32}
        asked = inspect.signature(StaticCache.__init__).parameters
        self.cache = StaticCache(config=config, max_cache_len=prompt.shape[1] + most,
                                 **{name: value for name, value in told.items() if name in asked})
        self.token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        self.place = torch.zeros(1, dtype=torch.long, device="cuda")
        self.graph = None
        self.decode(6)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph
        if not torch.equal(self.decode(most), generated(most).sequences):
            raise SystemExit("the captured step finds other tokens than generate()")

    def forward(self, tokens, places):
        out = model(tokens, past_key_values=self.cache, cache_position=places,
                    position_ids=places.unsqueeze(0), use_cache=True)
        return out.logits[:, -1:].argmax(-1)

    def step(self):
        self.token.copy_(self.forward(self.token, self.place))
        self.place.add_(1)

    @torch.no_grad()
    def decode(self, tokens):
        size = prompt.shape[1]
        self.cache.reset()
        self.token.copy_(self.forward(prompt, torch.arange(size, device="cuda")))
        self.place.fill_(size)
        found = [prompt, self.token.clone()]
        for _ in range(tokens - 1):
            if self.graph:
                self.graph.replay()
            else:
                self.step()
            found.append(self.token.clone())
        return torch.cat(found, 1)

    def repetition(self, iterations):
        with pace.launches:
            found = self.decode(iterations)
        pace.add(digest, found.cpu())


if args.graph:
    repetition = ByHand(args.iters).repetition


pace.run("decode", args, repetition, digest)
