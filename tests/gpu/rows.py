"""What the suite measures and what each program has to reach.

Two processes of one program differ by more than many goals leave room for. Where `pairs` says so one
more process therefore compares itself: with AUTOGRAPH_COMPARE_MS one of two spans of it is eager.
That ratio, where there is one, is what the eager goal is held against. A program whose work is in
graphs of its own has nothing to compare in one process: there `fastest` holds the goal against the
fastest tenth of all repetitions. (A virtual processor runs at half its speed for a while now and
then, whatever runs on it: docs/gpu-results.md.)

A goal is a ratio of medians within one run: `eager` is eager time over autograph time, `graph` is
hand-captured time over autograph time, `gain` is what autograph saves over what it saves in the row
that `reference` names. A row without goals is measured and compared all the same.
"""

from dataclasses import dataclass, field


@dataclass
class Row:
    name: str
    command: list               # {bin} is the folder of the examples, {programs} that of the scripts
    eager_goal: float = None
    graph_goal: float = None
    gain_goal: float = None
    replay_goal: float = None   # share of ops in graphs
    reference: str = None       # a row further up
    graph_args: list = None     # added to the command for the hand-captured variant
    env: dict = field(default_factory=dict)  # added for the autograph variant
    needs: list = field(default_factory=list)  # Python modules
    gpus: int = 1
    rounds: int = 3             # fresh processes of each variant
    repetitions: int = 4        # measured in each process
    seconds: float = 25.0       # a third round and more only where they end within this time
    timeout: float = 40.0       # of one process
    pairs: int = 0              # repetitions of the process that compares itself; 0: there is none
    fastest: bool = False       # the eager goal is held against the fastest tenth of the repetitions
    quick: bool = True          # part of --quick
    simulated: bool = False     # runs on the simulated driver as well
    hand_same: bool = True      # hand-captured, it computes the same
    label: str = None           # its name in the picture; None where it has no place there

    @property
    def cost(self):
        """About how long it takes, compared with other rows."""
        return 4.0 if self.needs else 1.0


# Loops make a repetition in 60 to 80 ms.
PAIRS = 40

BINDINGS = ("static", "shared", "driver")


TINY = "20 tiny, sync per step"


def loop_row(binding, what, *args, **more):
    # The simulated driver takes far longer than a GPU for large memory.
    simulated = binding == "driver" and not any("size" in arg for arg in args)
    return Row(f"loop {binding}: {what}", ["{bin}/loop_" + binding, *args], simulated=simulated,
               **more)


def published_rows(binding):
    """The published loop: what every way of binding CUDA has to reach alike."""
    hand = ["--graph"]
    quick = binding != "shared"

    def label(text):
        return text if binding == "static" else None

    return [
        loop_row(binding, TINY, "--sync=step", eager_goal=2.3, graph_goal=0.97, graph_args=hand,
                 rounds=4, label=label("C++ loop, 20 kernels and a sync")),
        loop_row(binding, "tiny, no sync", "--sync=none", eager_goal=3.0, graph_goal=1.05,
                 graph_args=hand, rounds=4, label=label("C++ loop, 20 kernels, no sync")),
        loop_row(binding, "tiny, no sync, changing arguments", "--sync=none", "--changing",
                 eager_goal=1.9, quick=quick),
        loop_row(binding, "500,000 elements, 20 + sync", "--sync=step", "--size=500000",
                 eager_goal=1.6, graph_goal=0.97, graph_args=hand, quick=quick,
                 label=label("C++ loop, 500,000 elements")),
        loop_row(binding, "20 tiny and 20 memsets, sync per step", "--sync=step", "--memsets",
                 graph_goal=1.3, graph_args=hand, quick=quick,
                 label=label("C++ loop, 20 kernels and 20 memsets")),
        loop_row(binding, "never repeats", "--sync=step", "--never-repeat", eager_goal=0.99,
                 pairs=PAIRS, quick=quick, label=label("C++ loop that never repeats")),
    ]


def further_rows(binding):
    """What depends on the driver alone, for one way of binding it."""
    hand = ["--graph"]
    tiny = f"loop {binding}: {TINY}"
    return [
        loop_row(binding, "50 tiny and 50 memsets, sync per step", "--sync=step", "--memsets",
                 "--kernels=50", graph_goal=1.3, graph_args=hand, quick=False,
                 label="C loop, 50 kernels and 50 memsets"),
        loop_row(binding, "20 tiny and 20 memsets, no sync", "--sync=none", "--memsets",
                 graph_goal=1.3, graph_args=hand, quick=False),
        loop_row(binding, "two streams, fork and join, 8 tiny on each side", "--sync=step",
                 "--fork", "--kernels=9", eager_goal=1.8, graph_args=hand, label="C loop, two streams, fork and join"),
        loop_row(binding, "20 tiny, sync and timing events per step", "--sync=step", "--timing",
                 "--steps=4000",  # the first 200 ms stay eager: it may be an autotuner
                 gain_goal=0.9, reference=tiny, rounds=4),
        loop_row(binding, "5 us kernels, no sync", "--sync=none", "--gpu-us=5", "--steps=500",
                 eager_goal=1.08, graph_args=hand, label="C loop, kernels of 5 us, no sync"),
        loop_row(binding, "10 us kernels, no sync", "--sync=none", "--gpu-us=10", "--steps=300",
                 eager_goal=1.08, graph_args=hand),
        loop_row(binding, "20 tiny, sync per step, changing arguments", "--sync=step",
                 "--changing", eager_goal=1.9, quick=False),
        loop_row(binding, "tiny, no sync, another grid in each step", "--sync=none", "--resized",
                 eager_goal=1.3),
        loop_row(binding, "100 tiny, sync per step, another grid in each", "--sync=step",
                 "--resized", "--kernels=100", "--steps=200", eager_goal=1.5, quick=False),
        loop_row(binding, "tiny, sync per kernel", "--sync=kernel", "--steps=300",
                 eager_goal=0.99, pairs=PAIRS, quick=False),
        loop_row(binding, "20 tiny and a word that the program polls", "--sync=poll",
                 eager_goal=2.0, graph_goal=0.9, graph_args=hand,
                 label="C loop, 20 kernels and a polled word"),
        loop_row(binding, "legacy stream, 20 tiny, sync per step", "--sync=step",
                 "--stream=legacy", eager_goal=0.99, quick=False),
        loop_row(binding, "per-thread default stream, 20 tiny, sync per step", "--sync=step",
                 "--stream=per-thread", eager_goal=1.8),
        loop_row(binding, "never repeats, no sync", "--sync=none", "--never-repeat",
                 eager_goal=0.99, pairs=PAIRS, quick=False),
        # The driver's own functions either way: how far apart two readings of one thing are.
        loop_row(binding, "AUTOGRAPH=0, a control: no hook", "--sync=step",
                 env={"AUTOGRAPH": "0"}, quick=False),
    ]


def loop_rows():
    rows = [row for binding in BINDINGS for row in published_rows(binding)]
    return rows + further_rows("driver")


def example_rows():
    hand = ["--graph"]
    rows = [Row(f"heat {binding}: residual read back every 10 steps", ["{bin}/heat_" + binding],
                eager_goal=0.99, graph_goal=0.97, graph_args=hand, simulated=binding == "driver",
                quick=binding != "static",
                label="C++ heat equation, residual read back" if binding == "static" else None)
            for binding in BINDINGS]
    rows += [Row(f"cg {binding}: residual read back in every iteration", ["{bin}/cg_" + binding],
                 eager_goal=0.99, graph_goal=0.97, graph_args=hand, simulated=binding == "driver",
                 quick=binding == "static",
                 label="C++ conjugate gradients" if binding == "static" else None)
             for binding in ("static", "driver")]
    rows.append(Row("chain: 20 cuBLAS products with memsets and activations", ["{bin}/chain_shared"],
                    eager_goal=0.99, graph_goal=0.97, graph_args=hand, label="cuBLAS, 20 layers"))
    return rows


def script(name, what, *args, modules=(), **more):
    more = {"timeout": 100.0, "eager_goal": 0.99, "quick": False, "repetitions": 5, **more}
    return Row(what, ["{python}", "{programs}/" + name + ".py", *args], needs=list(modules), **more)


def framework_rows():
    torch = ("torch",)
    vision = ("torch", "torchvision")
    hand = ["--graph"]
    return [
        script("resnet18_eager", "PyTorch ResNet-18, eager mode", modules=vision, pairs=30, eager_goal=1.5,
               replay_goal=0.97, graph_args=hand, quick=True, label="PyTorch ResNet-18, eager mode"),
        script("resnet18_script", "PyTorch ResNet-18, TorchScript", modules=vision, pairs=50, eager_goal=2.2,
               replay_goal=0.97, graph_args=hand, quick=True, label="PyTorch ResNet-18, TorchScript"),
        script("train_step", "PyTorch training, 560 steps", modules=torch, pairs=14, repetitions=7,
               quick=True, graph_args=hand, hand_same=False, label="PyTorch training step"),
        script("transformer4", "PyTorch transformer", modules=torch, pairs=40, graph_args=hand,
               label="PyTorch transformer, eager mode"),
        script("transformer4", "PyTorch transformer, TorchScript", "--script", modules=torch, pairs=60,
               graph_args=hand, label="PyTorch transformer, TorchScript"),
        script("decode", "transformers generate()", modules=("torch", "transformers"), pairs=14,
               eager_goal=1.0, graph_args=hand, hand_same=False, label="transformers generate()"),
        script("triton_loop", "Triton loop", modules=("torch", "triton"), pairs=50, eager_goal=1.0,
               graph_args=hand, label="Triton, 20 kernels and a sync"),
        script("cupy_loop", "CuPy loop", modules=("cupy",), pairs=50, eager_goal=1.0, graph_args=hand,
               label="CuPy, 25 operations and a sync"),
        script("jax_step", "JAX training step", modules=("jax",), eager_goal=1.0, fastest=True, rounds=5,
               repetitions=40, seconds=45.0, label="JAX compiled training step"),
        script("numba_loop", "numba loop", modules=("numba",), pairs=50, eager_goal=1.0),
        script("torch_cuda_graph", "PyTorch with its own CUDA graph", modules=torch),
        script("mlp20", "PyTorch MLP of 20 layers", modules=torch, pairs=40, graph_args=hand),
        script("nccl_train", "PyTorch and NCCL on two GPUs", modules=torch, gpus=2,
               label="PyTorch and NCCL on two GPUs"),
    ]


def all_rows():
    return loop_rows() + example_rows() + framework_rows()
