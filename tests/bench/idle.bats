#!/usr/bin/env bats
# Streams that a thread has launched to and uses no more.

load ../command/common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_SUBMIT=inline SIMCUDA_MODE=null
}

# ns STREAMS: of an op, the best of three.
ns() {
    for _ in 1 2 3; do
        under "$AG_BUILD/tests/bench/bench_scale" idle "$1"
    done | sort -n | head -1 | cut -d. -f1
}

# Each sync took a lock of each of them: an op of steps of 20 cost 17 times as much with 500, now 3.
@test "a sync looks at hundreds of idle streams in passing" {
    local few many
    few=$(ns 2) many=$(ns 500)
    echo "ns of an op: $few with two streams, $many with 500"
    [ "$many" -le $((few * 6)) ]
}
