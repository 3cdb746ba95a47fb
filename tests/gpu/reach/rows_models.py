"""Rows of libraries on top of PyTorch: models with random weights, made from a configuration."""

import math

import torch
from torch import nn

from rows_torch import DTYPES, PLACES, begin, loop, summed, training


def tokens(*shape):
    return torch.randint(5, 500, shape, device="cuda")


def encoder(precision):
    begin(precision)
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4,
                                 intermediate_size=512)).eval().cuda().to(DTYPES[precision])
    texts = [tokens(2, 64) for _ in range(PLACES)]
    mask = torch.ones(2, 64, device="cuda", dtype=torch.long)
    mask[1, 50:] = 0
    total = torch.zeros(2, 64, 256, device="cuda")

    @torch.no_grad()
    def step(i):
        found = model(input_ids=texts[i % PLACES], attention_mask=mask).last_hidden_state
        total.add_(found.float())
    return loop(step, lambda: [total])


def llama(precision):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                         bos_token_id=1, eos_token_id=None, pad_token_id=0)
    return config, LlamaForCausalLM(config).eval().cuda().to(DTYPES[precision])


def decoder(precision, kind):
    """A step is one more token; after 40 a new text is begun."""
    begin(precision)
    from transformers import DynamicCache, StaticCache
    config, model = llama(precision)
    total = torch.zeros(1, 1000, device="cuda")
    state = {}
    static = StaticCache(config=config, max_cache_len=64) if kind == "static" else None

    def start(i):
        if static is not None:
            static.reset()
        state["cache"] = DynamicCache(config=config) if static is None else static
        return torch.arange(5 + i % 7, 17 + i % 7, device="cuda").unsqueeze(0), torch.arange(12, device="cuda")

    @torch.no_grad()
    def step(i):
        if i % 40 == 0:
            text, place = start(i)
        else:
            text, place = state["token"], state["place"]
        logits = model(text, past_key_values=state["cache"], position_ids=place.unsqueeze(0),
                       use_cache=True).logits[:, -1]
        total.add_(logits.float())
        state["token"], state["place"] = logits.argmax(-1, keepdim=True), place[-1:] + 1
    return loop(step, lambda: [total])


def lora():
    begin("bf16")
    from peft import LoraConfig, get_peft_model
    _, model = llama("bf16")
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])).train()
    texts = [tokens(2, 32) for _ in range(PLACES)]
    trained = [p for p in model.parameters() if p.requires_grad]
    return training(model, lambda i: model(input_ids=texts[i % PLACES], labels=texts[i % PLACES]).loss,
                    torch.optim.AdamW(trained, lr=1e-3))


def timm_model(name):
    begin()
    import timm
    model = timm.create_model(name, pretrained=False, num_classes=10).eval().cuda()
    return summed(model, 2, 3, 224, 224)


def graph_network():
    """Training of a GCN on one graph."""
    begin()
    from torch_geometric.nn import GCNConv
    # Two values meet at each node, itself included: their sum does not depend on their order.
    edges = torch.stack([torch.arange(512), (torch.arange(512) + 37) % 512]).cuda()
    layers = nn.ModuleList([GCNConv(32, 64), GCNConv(64, 64), GCNConv(64, 8)]).cuda()
    nodes = torch.randn(PLACES, 512, 32, device="cuda")

    def loss_of(i):
        x = nodes[i % PLACES]
        for layer in layers:
            x = torch.relu(layer(x, edges))
        return x.square().mean() - x.mean()
    return training(layers, loss_of)


def gaussian_process():
    """Training of an exact Gaussian process."""
    begin()
    import gpytorch

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
    x = torch.linspace(0, 1, 128, device="cuda")
    y = torch.sin(x * (2 * math.pi)) + 0.1 * torch.randn(128, device="cuda")
    likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
    model = Exact(x, y, likelihood).cuda().train()
    likelihood.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return training(model, lambda i: -marginal(model(x), y), torch.optim.Adam(model.parameters(), lr=0.01))


def neural_ode(method):
    """Training through torchdiffeq; dopri5 looks at its own error after each step."""
    begin()
    from torchdiffeq import odeint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

        def forward(self, _, y):
            return self.net(y ** 3)
    field = Field().cuda()
    starts = torch.rand(PLACES, 16, 2, device="cuda") * 2 - 1
    times = torch.linspace(0.0, 0.25, 3, device="cuda")
    return training(field, lambda i: odeint(field, starts[i % PLACES], times, method=method).square().mean())
