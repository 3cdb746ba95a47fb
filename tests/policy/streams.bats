#!/usr/bin/env bats
# The policy on recorded streams of real programs: share of ops by graphs, share flushed by a mismatch.
# REPLAY_OPS names the built replay_ops.

setup_file() {
    command -v xz >/dev/null || apt-get install -y xz-utils >/dev/null 2>&1 || true
    command -v xz >/dev/null || { echo "xz-utils is needed" >&2; return 1; }
    [ -x "$REPLAY_OPS" ] || { echo "set REPLAY_OPS to the built replay_ops" >&2; return 1; }
}

replay() { # NAME PERCENT
    run bash -o pipefail -c 'xz -dc "$1" | "$2" --at-least "$3" --at-most 0.5 "$4"' - \
        "$BATS_TEST_DIRNAME/streams/$1.ops.xz" "$REPLAY_OPS" "$2" "$1"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "llm-engine: 97 % of ops by graphs" { replay llm-engine 97; }
@test "jacobi-solver: 99 % of ops by graphs" { replay jacobi-solver 99; }
@test "hydro-2d: 95 % of ops by graphs" { replay hydro-2d 95; }
@test "transformers-decode: 90 % of ops by graphs" { replay transformers-decode 90; }
@test "pytorch-mix: 94 % of ops by graphs" { replay pytorch-mix 94; }

@test "a bound that is not met fails" {
    run bash -o pipefail -c 'xz -dc "$1" | "$2" --at-least 100' - \
        "$BATS_TEST_DIRNAME/streams/hydro-2d.ops.xz" "$REPLAY_OPS"
    [ "$status" -eq 1 ]
}

@test "replay_ops --json prints one JSON object" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    xz -dc "$BATS_TEST_DIRNAME/streams/jacobi-solver.ops.xz" | "$REPLAY_OPS" --json jacobi |
        python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["stream"] == "jacobi" and d["ops"] > 5000'
}

@test "replay_ops refuses what is no recorded stream" {
    run "$REPLAY_OPS" </dev/null
    [ "$status" -eq 2 ]
}
