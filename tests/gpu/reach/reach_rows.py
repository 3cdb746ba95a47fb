"""What the survey runs: a row for each library, precision and kind of program. Those in rows_*.py are functions
that loop.py calls; others are programs of the suite."""

from dataclasses import dataclass, field

STEPS, REPETITIONS = 50, 7      # one repetition warms up before these


@dataclass
class Row:
    name: str
    command: list               # {reach}, {programs}, {bin}, {gpu}, {python}
    steps: str = f"--steps={STEPS}"     # how the program is told what a repetition is
    python: bool = False
    gpus: int = 1
    env: dict = field(default_factory=dict)
    caches: bool = False        # the first process leaves compiled code in {folder} for the others
    cost: int = 1               # the dearest are begun first
    simulated: bool = False


def loop(name, where, **more):
    """where: MODULE:FUNCTION[:ARGUMENT...] without the rows_ of the module's name."""
    return Row(name, ["{python}", "{reach}/loop.py", "--row=rows_" + where], f"--iters={STEPS}", True, **more)


def script(name, file, *args, iters=STEPS, **more):
    return Row(name, ["{python}", "{programs}/" + file + ".py", *args], f"--iters={iters}", True, **more)


def program(name, file, *args, **more):
    return Row(name, ["{gpu}/" + file, *args], **more)


INDUCTOR = {"env": {"TORCHINDUCTOR_CACHE_DIR": "{folder}", "TRITON_CACHE_DIR": "{folder}/triton",
                    "TORCHINDUCTOR_COMPILE_THREADS": "2"}, "caches": True, "cost": 4}
TRITON = {"env": {"TRITON_CACHE_DIR": "{folder}/triton"}, "caches": True}


def library_rows():
    for precision in ("fp64", "fp32", "tf32", "fp16", "bf16"):
        yield loop(f"cuBLAS {precision}: products, batched", f"torch:gemm:{precision}")
    for precision in ("fp64", "fp32", "tf32", "fp16", "bf16"):
        yield loop(f"cuBLASLt {precision}: bias, ReLU, GELU", f"torch:epilogue:{precision}")
    yield loop("cuBLASLt int8", "torch:gemm_int8")
    yield loop("cuBLASLt fp8, bias", "torch:gemm_fp8")
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        yield loop(f"cuDNN {precision}: convolution, both ways", f"torch:convolution:{precision}")
    yield loop("cuDNN fp16: convolution, channels last", "torch:convolution_last")
    yield loop("normalisation: batch, group, layer", "torch:normalisation")
    yield loop("cuDNN LSTM fp32, training", "torch:rnn:LSTM:fp32")
    yield loop("cuDNN GRU fp16, training", "torch:rnn:GRU:fp16")
    for backend in ("math", "efficient", "flash", "cudnn"):
        yield loop(f"attention fp16: {backend}", f"torch:attention:{backend}")
    for kind, what in (("1d", "1-D"), ("2d", "2-D"), ("3d", "3-D"), ("r2c", "2-D, real"),
                       ("batched", "batched"), ("primes", "prime lengths"), ("fp64", "2-D fp64")):
        yield loop(f"cuFFT {what}", f"torch:fft:{kind}")
    yield loop("cuSOLVER by PyTorch", "torch:linalg")
    yield loop("cuSPARSE by PyTorch", "torch:sparse")
    yield loop("NCCL on one GPU", "torch:nccl")
    yield script("NCCL on two GPUs, training", "nccl_train", gpus=2)


def compiled_rows():
    yield loop("torch.compile, default", "torch:compiled:default", **INDUCTOR)
    yield loop("torch.compile, reduce-overhead", "torch:compiled:reduce-overhead", **INDUCTOR)
    yield loop("torch.export", "torch:exported", cost=2)
    yield loop("AOTInductor", "torch:ahead_of_time", **INDUCTOR)
    yield loop("Triton", "triton:chain:plain", **TRITON)
    yield loop("Triton, programmatic launch", "triton:chain:early", **TRITON)


def model_rows():
    for precision in ("fp16", "bf16"):
        yield loop(f"Hugging Face BERT {precision}", f"models:encoder:{precision}", cost=2)
    for precision in ("fp16", "bf16"):
        for kind in ("dynamic", "static"):
            yield loop(f"Hugging Face Llama {precision}, {kind} cache", f"models:decoder:{precision}:{kind}", cost=2)
    yield loop("LoRA training (peft)", "models:lora", cost=2)
    yield script("mixed precision, GradScaler", "train_amp")
    yield loop("timm ConvNeXt", "models:timm_model:convnext_atto", cost=2)
    yield loop("timm ViT", "models:timm_model:vit_tiny_patch16_224", cost=2)
    yield loop("torch-geometric GCN, training", "models:graph_network", cost=2)
    yield loop("gpytorch, training", "models:gaussian_process", cost=2)
    yield loop("neural ODE (torchdiffeq), training", "models:neural_ode:dopri5", cost=2)
    yield loop("diffusion sampling", "torch:diffusion")
    yield loop("RL policy, .item() in each step", "torch:policy")
    yield loop("LSTM cells", "torch:lstm_cells")
    yield script("data loader, forked workers", "train_loader", iters=3)
    yield loop("two models on two streams", "torch:two_streams")
    yield loop("four serving threads", "torch:threads")
    yield loop("pre-fork server", "torch:prefork")


def other_rows():
    yield loop("CuPy elementwise", "cupy:elementwise")
    yield loop("CuPy raw kernels", "cupy:raw")
    yield loop("CuPy FFT", "cupy:fft")
    yield loop("CuPy linalg", "cupy:linalg")
    yield loop("CuPy sparse CG", "cupy:sparse_cg")
    yield loop("JAX jitted", "jax:jitted")
    yield loop("JAX unjitted", "jax:unjitted", cost=2)
    yield loop("JAX scan", "jax:scan")
    yield loop("JAX with optax", "jax:optax")
    yield script("numba-cuda", "numba_loop")
    yield loop("cuda.core", "cuda_python:core")
    for what, setting in (("expandable segments", "expandable_segments:True"),
                          ("cudaMallocAsync", "backend:cudaMallocAsync")):
        yield loop(f"PyTorch, {what}", "torch:kept_buffers", env={"PYTORCH_CUDA_ALLOC_CONF": setting})
    yield loop("CuPy, memory of a pool", "cupy:pool")
    for kind, what in (("mapped", "mapped"), ("pool", "of a pool"), ("both", "of both")):
        yield program(f"C++ fills, copies: memory {what}", "movable", kind)
    for kind, what in (("none", "cudaLaunchKernelExC"), ("cluster", "clusters"), ("cooperative", "cooperative"),
                       ("programmatic", "programmatic"), ("driver", "cuLaunchKernelEx")):
        yield program(f"C++, poisoned stack: {what}", "attributes", kind)
    yield program("C++ --default-stream per-thread", "per_thread")
    for how, what in (("copies", "rows copied"), ("stores", "rows stored"), ("thread-copies", "rows copied by threads"),
                      ("thread-stores", "rows stored by threads")):
        yield program(f"C++ on two GPUs: {what}", "halves", how, gpus=2)
    for name in ("cuFFT", "cuSOLVER", "cuSPARSE", "cuRAND", "Thrust", "CUB"):
        yield program(f"C++ {name}", "lib_" + name.lower())


def simulated_rows():
    """The runner itself is tried on these."""
    for sync in ("step", "none"):
        yield Row(f"simulated: loop, --sync={sync}", ["{bin}/loop_driver", f"--sync={sync}"], simulated=True)


def all_rows():
    return [*library_rows(), *compiled_rows(), *model_rows(), *other_rows()]
