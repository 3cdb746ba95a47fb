"""Rows in PyTorch alone: each library that PyTorch calls, in each precision."""

import multiprocessing
import os
import sys
import tempfile
import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from loop import Loop

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16,
          "bf16": torch.bfloat16}
PLACES = 8      # inputs that steps take in turn


def begin(precision="fp32"):
    """The type of that precision, with everything set that makes two runs alike."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    return DTYPES[precision]


def host(tensor):
    """As NumPy has it; types that it lacks as wider ones."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn):
        tensor = tensor.float()
    return tensor.cpu().numpy()


def loop(step, tensors, **more):
    """`tensors()` lists what holds the results."""
    return Loop(step, torch.cuda.synchronize, lambda: [host(tensor) for tensor in tensors()], **more)


def summed(function, *shape, dtype=torch.float32, every=1):
    """A function of one input: its outputs are added up, so that none is forgotten. The inputs differ from step
    to step."""
    inputs = [torch.randn(*shape, device="cuda").to(dtype) for _ in range(PLACES)]
    with torch.no_grad():
        first = function(inputs[0])
    total = torch.zeros_like(first, dtype=torch.promote_types(first.dtype, torch.float32))

    @torch.no_grad()
    def step(i):
        total.add_(function(inputs[i % PLACES]))
    return loop(step, lambda: [total], every=every)


def training(model, loss_of, optimizer=None, every=10):
    """`loss_of(i)` of a model; the weights hold the result."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss_of(i).backward()
        optimizer.step()
    return loop(step, lambda: [p for p in model.parameters() if p.requires_grad], every=every)


def missed(x):
    """A loss whose gradient moves weights in half precision too."""
    return (x.float() - 1.0).square().mean()


# memory

def kept_buffers():
    """Copies and fills of buffers that stay, where the allocator named by the row's environment has put them."""
    begin()
    weights = [torch.randn(256, 256, device="cuda") / 16 for _ in range(6)]
    state, kept, work = (torch.randn(256, 256, device="cuda") for _ in range(3))
    total = torch.zeros_like(state)

    @torch.no_grad()
    def step(i):
        for weight in weights:
            kept.copy_(state)
            work.zero_()
            torch.addmm(work, kept, weight, out=state)
            torch.tanh(state, out=state)
        total.add_(state, alpha=1.0 + i % PLACES)
    return loop(step, lambda: [state, total])


# cuBLAS and cuBLASLt

def gemm(precision):
    """Products, plain and batched, behind each other."""
    dtype = begin(precision)
    plain = [torch.randn(256, 256, device="cuda").to(dtype) / 16 for _ in range(6)]
    batched = [torch.randn(8, 64, 64, device="cuda").to(dtype) / 8 for _ in range(6)]

    def chain(x):
        for weight in plain:
            x = x @ weight
        x = x.view(8, 32, 4, 64).transpose(1, 2).reshape(8, 128, 64)
        for weight in batched:
            x = torch.bmm(x, weight)
        return x
    return summed(chain, 256, 256, dtype=dtype)


def epilogue(precision):
    """Products with a bias, ReLU or GELU in their epilogue."""
    dtype = begin(precision)
    weights = [torch.randn(256, 256, device="cuda").to(dtype) / 16 for _ in range(9)]
    bias = torch.randn(256, device="cuda").to(dtype)

    def chain(x):
        for weight in weights[0::3]:
            x = torch.addmm(bias, x, weight)
            x = torch._addmm_activation(bias, x, weight, use_gelu=True)
            x = torch._addmm_activation(bias, x, weight, use_gelu=False)
        return x
    return summed(chain, 128, 256, dtype=dtype)


def gemm_int8():
    begin()
    weights = [torch.randint(-8, 8, (256, 256), device="cuda", dtype=torch.int8).t().contiguous().t()
               for _ in range(6)]

    def chain(x):
        x = x.mul(20).clamp(-100, 100).to(torch.int8)
        for weight in weights:
            x = (torch._int_mm(x, weight) // 64).clamp(-100, 100).to(torch.int8)
        return x.float()
    return summed(chain, 256, 256)


def gemm_fp8():
    begin()
    fp8, one = torch.float8_e4m3fn, torch.ones((), device="cuda")
    weights = [(torch.randn(256, 256, device="cuda") / 16).to(fp8).t() for _ in range(6)]
    bias = torch.randn(256, device="cuda").to(torch.bfloat16)

    def chain(x):
        for number, weight in enumerate(weights):
            x = torch._scaled_mm(x.to(fp8), weight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16,
                                 bias=bias if number % 2 else None)
        return x
    return summed(chain, 256, 256, dtype=torch.bfloat16)


# cuDNN

def convolution(precision):
    """Forward and backward."""
    dtype = begin(precision)
    model = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2, padding=1),
                          nn.ReLU(), nn.Conv2d(32, 8, 1)).cuda().to(dtype)
    inputs = torch.randn(PLACES, 8, 8, 32, 32, device="cuda").to(dtype)
    return training(model, lambda i: missed(model(inputs[i % PLACES])), torch.optim.SGD(model.parameters(), lr=0.05))


def convolution_last():
    """Forward only, channels last, half precision: the fastest way to serve."""
    begin()
    model = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) if k % 2 == 0 else nn.ReLU() for k in range(12)))
    model = model.cuda().half().to(memory_format=torch.channels_last)
    return summed(lambda x: model(x.to(memory_format=torch.channels_last)), 4, 32, 56, 56, dtype=torch.float16)


def normalisation():
    """Batch norm in training and in use, group norm and layer norm, in float and half."""
    begin()
    train, use = nn.BatchNorm2d(32).cuda().train(), nn.BatchNorm2d(32).cuda().eval()
    group, layer = nn.GroupNorm(4, 32).cuda(), nn.LayerNorm(28).cuda()
    half = nn.LayerNorm(28).cuda().half()
    return summed(lambda x: half(layer(group(use(train(x)))).half()).float(), 4, 32, 28, 28)


def rnn(kind, precision):
    dtype = begin(precision)
    model = getattr(nn, kind)(64, 128, num_layers=2, batch_first=True).cuda().to(dtype)
    inputs = torch.randn(PLACES, 8, 16, 64, device="cuda").to(dtype)
    return training(model, lambda i: missed(model(inputs[i % PLACES])[0]),
                    torch.optim.SGD(model.parameters(), lr=0.05))


def lstm_cells():
    begin()
    cell, head = nn.LSTMCell(32, 64).cuda(), nn.Linear(64, 32).cuda()

    def run(x):
        h = c = torch.zeros(8, 64, device="cuda")
        for _ in range(8):
            h, c = cell(x, (h, c))
            x = head(h)
        return x
    return summed(run, 8, 32)


def attention(backend):
    """scaled_dot_product_attention, forward and backward, with and without a causal mask."""
    begin()
    wanted = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION,
              "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[backend]
    model = nn.Linear(64, 192, bias=False).cuda().half()
    inputs = torch.randn(PLACES, 2, 4, 128, 64, device="cuda").half()

    def loss_of(i):
        with sdpa_kernel(wanted):
            q, k, v = model(inputs[i % PLACES]).chunk(3, dim=-1)
            x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = F.scaled_dot_product_attention(q, k, x)
        return missed(x)
    return training(model, loss_of, torch.optim.SGD(model.parameters(), lr=0.05))


# cuFFT, cuSOLVER, cuSPARSE

def fft(kind):
    begin()
    size = {"1d": (4096,), "2d": (128, 128), "3d": (32, 32, 32), "r2c": (256, 128), "batched": (64, 500),
            "primes": (7, 1009), "fp64": (64, 64)}[kind]
    dims = {"1d": (0,), "2d": (0, 1), "3d": (0, 1, 2), "r2c": (0, 1), "batched": (1,), "primes": (0, 1),
            "fp64": (0, 1)}[kind]
    real = torch.float64 if kind == "fp64" else torch.float32
    phase = torch.rand(*size[:-1], size[-1] // 2 + 1 if kind == "r2c" else size[-1], device="cuda", dtype=real)
    turn = torch.exp(1j * phase)    # a split step: turns each frequency, and each point by what is there

    def there_and_back(x):
        for _ in range(4):
            if kind == "r2c":
                x = torch.fft.irfftn(torch.fft.rfftn(x, dim=dims) * turn, s=[size[d] for d in dims], dim=dims)
                x = x + 0.1 * torch.tanh(x)
            else:
                x = torch.fft.ifftn(torch.fft.fftn(x, dim=dims) * turn, dim=dims)
                x = x * torch.exp(-0.1j * x.abs().square())
        return x
    dtype = real if kind == "r2c" else torch.complex128 if kind == "fp64" else torch.complex64
    return summed(there_and_back, *size, dtype=dtype)


def linalg():
    """Cholesky, LU, QR and eigenvalues: cuSOLVER by PyTorch."""
    begin()
    one = torch.eye(48, device="cuda")

    def solve(x):
        spd = x @ x.mT + 48 * one
        y = torch.cholesky_solve(x, torch.linalg.cholesky(spd))
        y = y + torch.linalg.solve(spd, x)
        y = y + torch.linalg.qr(spd)[1].diagonal().abs().sqrt()
        return y + torch.linalg.eigvalsh(spd)
    return summed(solve, 48, 48)


def sparse():
    """Sparse products: cuSPARSE by PyTorch."""
    begin()
    places = torch.arange(1024)
    matrix = torch.sparse_coo_tensor(torch.stack([places.repeat(3), torch.cat([places, (places + 1) % 1024,
                                                                               (places + 37) % 1024])]),
                                     torch.rand(3072) / 2, (1024, 1024)).to_sparse_csr().cuda()

    def products(x):
        for _ in range(6):
            x = matrix @ x
        return x
    return summed(products, 1024, 8)


# Programs

def policy():
    """A reinforcement learner's rollout: an action is read back in each step, and the update after 20."""
    begin()
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    state, kept = torch.zeros(4), []

    def step(i):
        nonlocal state
        spread = torch.distributions.Categorical(logits=model(state.cuda()))
        action = spread.sample()
        state = (state * 0.9 + torch.tensor([1.0, -1.0, 0.5, 0.1]) * (2 * action.item() - 1)).clamp(-2, 2)
        kept.append(spread.log_prob(action) * (1.0 - float(state[0].abs())))
        if len(kept) == 20:
            optimizer.zero_grad(set_to_none=True)
            (-torch.stack(kept).sum()).backward()
            optimizer.step()
            kept.clear()
    return loop(step, lambda: model.parameters())


def diffusion():
    """Sampling: a small network is asked for the noise, 10 times a sample."""
    begin()
    net = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU(),
                        nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.SiLU(),
                        nn.Conv2d(32, 3, 3, padding=1)).cuda()
    alphas = torch.linspace(0.99, 0.9, 10).cumprod(0).tolist()

    def sample(x):
        for at, alpha in enumerate(reversed(alphas)):
            time = torch.full_like(x[:, :1], at / 10)
            noise = net(torch.cat([x, time], 1))
            clean = (x - (1 - alpha) ** 0.5 * noise) / alpha ** 0.5
            x = alpha ** 0.5 * clean.clamp(-3, 3) + (1 - alpha) ** 0.5 * noise
        return x
    return summed(sample, 2, 3, 16, 16)


def two_streams():
    """Two models on two streams, joined by events."""
    begin()
    models = [nn.Sequential(*(nn.Linear(128, 128) if k % 2 == 0 else nn.ReLU() for k in range(12))).cuda()
              for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in models]
    inputs = torch.randn(PLACES, 32, 128, device="cuda")
    total = torch.zeros(32, 128, device="cuda")

    @torch.no_grad()
    def step(i):
        here, outputs = torch.cuda.current_stream(), []
        for model, stream in zip(models, streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                outputs.append(model(inputs[i % PLACES]))
        for output, stream in zip(outputs, streams):
            here.wait_stream(stream)
            output.record_stream(here)
            total.add_(output)
    return loop(step, lambda: [total])


def threads():
    """Four threads that each serve a model of their own on a stream of their own."""
    begin()
    models = [nn.Sequential(*(nn.Linear(128, 128) if k % 2 == 0 else nn.ReLU() for k in range(8))).cuda()
              for _ in range(4)]
    inputs = torch.randn(PLACES, 16, 128, device="cuda")
    totals = torch.zeros(4, 16, 128, device="cuda")
    begun, ended = threading.Barrier(5), threading.Barrier(5)
    number = 0

    @torch.no_grad()
    def serve(k):
        stream = torch.cuda.Stream()
        while True:
            begun.wait()
            if number < 0:
                return
            with torch.cuda.stream(stream):
                totals[k].add_(models[k](inputs[number % PLACES]))
            stream.synchronize()
            ended.wait()

    def step(i):
        nonlocal number
        number = i
        begun.wait()
        ended.wait()

    def end():
        nonlocal number
        number = -1
        begun.wait()
        for server in servers:      # Python ends daemon threads that it finds in C++ with an abort
            server.join()
    torch.cuda.synchronize()
    servers = [threading.Thread(target=serve, args=(k,), daemon=True) for k in range(4)]
    for server in servers:
        server.start()
    return loop(step, lambda: [totals], end=end)


def serve(pipe):
    """A worker's work: a step when asked for one, all results in the end."""
    begin()
    model = nn.Sequential(*(nn.Linear(128, 128) if k % 2 == 0 else nn.ReLU() for k in range(12))).cuda()
    one = summed(model, 16, 128)
    for wish in iter(pipe.recv, None):
        if wish != "results":
            one.repetition(1)
        pipe.send(one.results() if wish == "results" else wish)


def prefork():
    """A server that loads everything, forks its worker, and leaves CUDA to it."""
    parent, child = multiprocessing.Pipe()
    worker = os.fork()
    if worker == 0:
        serve(child)
        sys.exit(0)

    def ask(what):
        parent.send(what)
        return parent.recv()

    def end():
        parent.send(None)
        os.waitpid(worker, 0)
    child.close()
    return Loop(ask, lambda: None, lambda: ask("results"), end=end)


# Compiled

def network():
    return nn.Sequential(nn.Linear(128, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 256), nn.LayerNorm(256),
                         nn.GELU(), nn.Linear(256, 128)).cuda().eval()


def compiled(mode):
    begin()
    model = torch.compile(network(), mode=mode)

    def marked(x):
        torch.compiler.cudagraph_mark_step_begin()
        return model(x)
    return summed(marked, 32, 128)


def exported():
    """A program of torch.export."""
    begin()
    model = network()
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(32, 128, device="cuda"),))
    return summed(program.module(), 32, 128)


def ahead_of_time():
    """Compiled ahead of time by AOTInductor, and loaded."""
    begin()
    from torch._inductor import aoti_compile_and_package, aoti_load_package
    model = network()
    path = os.path.join(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/tmp"), "package.pt2")
    if not os.path.exists(path):
        with torch.no_grad():
            program = torch.export.export(model, (torch.randn(32, 128, device="cuda"),))
        aoti_compile_and_package(program, package_path=path)
    return summed(aoti_load_package(path), 32, 128)


def nccl():
    """An all-reduce between the products, by one process alone."""
    import torch.distributed as dist
    begin()
    folder = tempfile.TemporaryDirectory()
    dist.init_process_group("nccl", init_method=f"file://{folder.name}/rendezvous", rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    weights = [torch.randn(128, 128, device="cuda") / 11 for _ in range(6)]

    def chain(x):
        for weight in weights:
            x = (x @ weight).relu()
            dist.all_reduce(x)
        return x

    def end():
        dist.destroy_process_group()
        folder.cleanup()
    one = summed(chain, 32, 128)
    one.end = end
    return one
