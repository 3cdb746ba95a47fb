#!/usr/bin/env bats
# libautograph_free.so: ops answer at once and do nothing, all else is the driver's. libautograph_turns.so: both in turn.

load ../command/common.bash
setup() {
    common_setup
    free=$AG_BUILD/tests/bench/libautograph_free.so
    export SIMCUDA_LOG=$PWD/log
}

# calls NAME: how often the driver was called by that name.
calls() {
    awk -v name="$1" '$2 == "call" && $4 == name' log | wc -l
}

@test "launches and memsets do not reach the driver, syncs do" {
    LD_PRELOAD=$AG_RUNTIME:$free run "$loop" --memsets --steps=10 --reps=1
    [ "$status" -eq 1 ] # the result is wrong
    [[ "$output" == *check=WRONG* ]]
    [ "$(calls cuLaunchKernel)" -eq 0 ]
    [ "$(calls cuMemsetD32Async)" -eq 0 ]
    [ "$(calls cuStreamSynchronize)" -ge 20 ]
}

@test "as many ops as the file says run as usual, and are counted" {
    printf '\x90\x01\0\0\0\0\0\0' >count # 400: all of them
    export AG_FREE_FILE=$PWD/count
    LD_PRELOAD=$AG_RUNTIME:$free "$loop" --steps=10 --reps=1
    [ "$(calls cuLaunchKernel)" -eq 400 ]
    printf '\x64\0\0\0\0\0\0\0' >count
    LD_PRELOAD=$AG_RUNTIME:$free run "$loop" --steps=10 --reps=1
    [ "$(calls cuLaunchKernel)" -eq 100 ]
    cmp count <(printf '\0\0\0\0\0\0\0\0')
}

@test "a file that is not there ends the program" {
    LD_PRELOAD=$AG_RUNTIME:$free AG_FREE_FILE=$PWD/none run "$loop" --steps=10 --reps=1
    [ "$status" -eq 96 ]
}

@test "ways of submitting take turns: eager, timed and free ops are in no graph, the others are" {
    # Simulated launches cost too little for graphs to pay off, and a busy machine stops the program while it holds ops.
    export AG_TURNS=eimf AG_TURNS_SPAN_MS=30 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_MAX_DEFER_US=200000
    for seconds in 1 4 16 64; do # a busy machine breaks spans
        LD_PRELOAD=$AG_RUNTIME:${free/_free/_turns} AG_TURNS_SECONDS=$seconds run "$loop" --sync=none --steps=1000000000
        [ "$status" -eq 0 ]
        grep '^TURNS ' <<<"$output" >line
        ! has_all_ways || return 0
    done
    false # a way had no span, or no graph was launched in the spans of graphs
}

# Whether each way had a span, and graphs were launched in theirs. An eager or a free op in a graph ends the test,
# and so do calls that are timed elsewhere than in m.
has_all_ways() {
    python3 - <<'EOF' >verdict
import json
spans = json.loads(open("line").read().split(" ", 1)[1])["spans"]
chunks = {way: [n for name, _, _, n, _ in spans if name == way] for way in "eimf"}
timed = all((calls > 0) == (name == "m") for name, _, _, _, calls in spans)
wrong = any(chunks["e"] + chunks["m"] + chunks["f"]) or not timed
print("wrong" if wrong else "whole" if all(chunks.values()) and any(chunks["i"]) else "short")
EOF
    cat verdict
    ! grep -q wrong verdict || exit 1
    grep -q whole verdict
}
