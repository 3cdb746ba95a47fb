#!/usr/bin/env bats
# The policy on recorded runs (recorded/README.md): the figures of each stay within its bounds.
# AG_COMMAND names the built autograph command.

bats_require_minimum_version 1.5.0

setup_file() {
    [ -x "$AG_COMMAND" ] || { echo "set AG_COMMAND to the built autograph command" >&2; return 1; }
    export PYTHONDONTWRITEBYTECODE=1
}

check() { # ARGUMENT...
    run python3 "$BATS_TEST_DIRNAME/recorded.py" --check "$@"
    echo "$output"
}

holds() { # NAME...
    check "$AG_COMMAND" "$@"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "loops with a sync, without one, and with memsets" { holds loop-sync loop-nosync loop-memsets; }
@test "launches that never repeat: no graph is built" { holds loop-never-repeats; }
@test "solvers that read a scalar back: heat, heat on the driver API, conjugate gradients" { holds heat heat-driver cg; }
@test "cuBLAS products" { holds chain; }
@test "PyTorch ResNet-18, eager mode" { holds resnet18-eager; }
@test "PyTorch ResNet-18, TorchScript" { holds resnet18-script; }
@test "PyTorch transformer, eager mode and TorchScript" { holds transformer4 transformer4-script; }
@test "PyTorch training" { holds training; }
@test "token by token with a growing cache: transformers generate()" { holds decode; }
@test "Triton" { holds triton; }
@test "CuPy" { holds cupy; }
@test "JAX, which submits graphs of its own" { holds jax; }

@test "solvers of others: Jacobi, hydrodynamics" { holds jacobi-solver hydro-2d; }
@test "a C++ engine that decodes token by token" { holds llm-engine; }
@test "PyTorch programs one after the other; a transformer's decode" { holds pytorch-mix transformers-decode; }

@test "every recorded run has bounds and a line in the README, and every bound a run" {
    for file in "$BATS_TEST_DIRNAME"/recorded/*.dump.xz; do
        name=$(basename "$file" .dump.xz)
        grep -q "^$name," "$BATS_TEST_DIRNAME/recorded/bounds.csv" || { echo "no bounds for $name"; return 1; }
        grep -q "^| $name |" "$BATS_TEST_DIRNAME/recorded/README.md" || { echo "no line for $name"; return 1; }
        grep -q "holds.* $name[ ;]" "$BATS_TEST_FILENAME" || { echo "no test of $name"; return 1; }
    done
    while IFS=, read -r name _; do
        [ "$name" = run ] || [ -e "$BATS_TEST_DIRNAME/recorded/$name.dump.xz" ] || { echo "no run $name"; return 1; }
    done <"$BATS_TEST_DIRNAME/recorded/bounds.csv"
}

# What the bounds are worth: settings that make the policy worse are noticed, each by the bound it breaks.
@test "graphs only after 50 repetitions: less is replayed, and later" {
    check --option=--min-repeats=50 "$AG_COMMAND" resnet18-eager
    [ "$status" -eq 1 ]
    [[ "$output" == *"% by graphs"* ]]
    [[ "$output" == *"until the first replay"* ]]
}

@test "chunks of two ops: too many graphs and driver calls" {
    check --option=--max-chunk=2 "$AG_COMMAND" resnet18-eager
    [ "$status" -eq 1 ]
    [[ "$output" == *"graphs built"* ]]
    [[ "$output" == *"driver calls a launch"* ]]
}

@test "a watchdog of 20 us: too many launches held back and sent one by one" {
    check --option=--max-defer-us=20 "$AG_COMMAND" training
    [ "$status" -eq 1 ]
    [[ "$output" == *"% flushed"* ]]
}

@test "chunks of 64 ops whatever the pace: too much memory" {
    check --option=--chunk=64 "$AG_COMMAND" decode
    [ "$status" -eq 1 ]
    [[ "$output" == *"KiB at the peak"* ]]
}
