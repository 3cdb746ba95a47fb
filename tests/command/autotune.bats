#!/usr/bin/env bats
# Programs that time candidates by events and choose by that: what they measure is what they launch.

load common.bash
setup() {
    common_setup
    autotune=$AG_BUILD/tests/command/command_autotune
}

# What is built in the launch that wants it is there at once: nothing hangs on the builder's thread.
@test "no candidate of an autotuner is measured in a graph: XLA, Triton, inductor, cuDNN, cuBLASLt's callers" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    for kind in xla triton inductor cudnn cublaslt; do
        for _ in 1 2 3; do # a machine that stops for half a second looks like a program that has measured
            ! same "$autotune" $kind || break
            mv with.err failed.err
        done
        cat with.err
        grep -q '^graphs while it measured: 0$' with.err
        at_least "ops replayed in the work between" "$(figure "replayed")" 500
    done
}

@test "a loop that times each of its steps is replayed, once that has gone on for a while" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    local steps=4000
    for _ in 1 2 3 4 5; do # until it has gone on for 200 ms
        same "$autotune" steps $steps
        [ "$(replayed_share)" -lt 50 ] || break
        steps=$((steps * 4))
    done
    at_least "replayed per cent" "$(replayed_share)" 50
}
