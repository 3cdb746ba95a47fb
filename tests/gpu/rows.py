"""What the suite measures and what each program has to reach.

A goal is a ratio of medians within one run: `eager` is eager time over autograph time, `graph` is
hand-captured time over autograph time. A row without goals is measured and compared all the same.
"""

from dataclasses import dataclass, field


@dataclass
class Row:
    name: str
    command: list               # {bin} is the folder of the examples, {programs} that of the scripts
    eager_goal: float = None
    graph_goal: float = None
    graph_args: list = None     # added to the command for the hand-captured variant
    env: dict = field(default_factory=dict)  # added for the autograph variant
    needs: list = field(default_factory=list)  # Python modules
    gpus: int = 1
    repetitions: int = 7
    timeout: float = 40.0
    quick: bool = True          # part of --quick
    simulated: bool = False     # runs on the simulated driver as well


BINDINGS = ("static", "shared", "driver")


def loop_rows():
    rows = []
    for binding in BINDINGS:
        def add(what, args, **more):
            small = "--size=500000" not in args
            rows.append(Row(f"loop {binding}: {what}", ["{bin}/loop_" + binding, *args],
                            simulated=binding == "driver" and small, **more))

        add("20 tiny, sync per step", ["--sync=step"],
            eager_goal=2.3, graph_goal=0.85, graph_args=["--graph"])
        add("tiny, no sync", ["--sync=none"],
            eager_goal=3.0, graph_goal=0.95, graph_args=["--graph"])
        add("tiny, no sync, changing arguments", ["--sync=none", "--changing"], eager_goal=1.9,
            quick=binding != "shared")
        add("20 tiny, sync per step, changing arguments", ["--sync=step", "--changing"],
            eager_goal=1.9, quick=False)
        add("500,000 elements, 20 + sync", ["--sync=step", "--size=500000"],
            eager_goal=1.6, graph_args=["--graph"])
        add("tiny, sync per kernel", ["--sync=kernel", "--steps=300"],
            eager_goal=0.99, repetitions=15, quick=False)
        add("legacy stream, 20 tiny, sync per step", ["--sync=step", "--stream=legacy"],
            quick=False)
        add("never repeats", ["--sync=step", "--never-repeat"], eager_goal=0.99, repetitions=15,
            quick=binding != "static")
        add("never repeats, no sync", ["--sync=none", "--never-repeat"],
            eager_goal=0.99, repetitions=15, quick=False)
        add("AUTOGRAPH=0", ["--sync=step"], eager_goal=0.99, repetitions=15,
            env={"AUTOGRAPH": "0"}, quick=binding == "driver")
    return rows


def example_rows():
    rows = [Row(f"heat {binding}: residual read back every 10 steps", ["{bin}/heat_" + binding],
                eager_goal=0.99, simulated=binding == "driver", quick=binding != "static")
            for binding in BINDINGS]
    rows.append(Row("chain: 20 cuBLAS products with memsets", ["{bin}/chain_shared"],
                    eager_goal=0.99))
    return rows


def script(name, what, *args, modules=(), **more):
    more = {"timeout": 100.0, "eager_goal": 0.99, "quick": False, **more}
    return Row(what, ["{python}", "{programs}/" + name + ".py", *args], needs=list(modules), **more)


def framework_rows():
    torch = ("torch",)
    vision = ("torch", "torchvision")
    return [
        script("resnet18_eager", "PyTorch ResNet-18, eager mode", modules=vision, eager_goal=1.25,
               quick=True),
        script("resnet18_script", "PyTorch ResNet-18, TorchScript", modules=vision, eager_goal=1.5,
               quick=True),
        script("mlp20", "PyTorch MLP of 20 layers", modules=torch),
        script("train_step", "PyTorch training, 560 steps", modules=torch, quick=True),
        script("transformer4", "PyTorch transformer", modules=torch),
        script("transformer4", "PyTorch transformer, TorchScript", "--script", modules=torch),
        script("decode", "transformers generate()", modules=("torch", "transformers")),
        script("torch_cuda_graph", "PyTorch with its own CUDA graph", modules=torch),
        script("triton_loop", "Triton loop", modules=("torch", "triton")),
        script("cupy_loop", "CuPy loop", modules=("cupy",)),
        script("jax_step", "JAX training step", modules=("jax",)),
        script("numba_loop", "numba loop", modules=("numba",)),
        script("nccl_train", "PyTorch and NCCL on two GPUs", modules=torch, gpus=2),
    ]


def all_rows():
    return loop_rows() + example_rows() + framework_rows()
