#!/usr/bin/env bats
# Streams that fork and join go into one graph (AUTOGRAPH_TEST_JOIN): what meets their events from outside finds them
# where an eager run would have them.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_JOIN=2 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000
}

# forks LEAST CASE N: the same output, and so many ops were replayed.
forks() {
    same "$forks" "$2" "$3"
    cat with.out summary
    at_least "replayed ops" "$(figure replayed)" "$1"
}

@test "the driver has a record before a host function that waits for the program" { forks 50 host-function-behind 40; }
@test "the driver has a record before a kernel that waits for the program" { forks 6000 kernel-behind 10; }
@test "a record by a graph of the program's is not one of the fork" { forks 200 graph-records 40; }

# The records of its first 64 steps are not held back (AG_FORK_PROMPT).
@test "a graph of the program's waits for a record of the fork" { forks 600 graph-waits 100; }

@test "a fork does not wait for the GPU where the queues of its streams have room" {
    SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=inline forks 20000 full-queues 40
    [ "$(figure "launches that waited for the GPU, which was far behind")" -eq 0 ]
}

@test "a fork's own launches behind its graphs do not wait for the GPU where its queue has room" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    for mode in inline thread; do
        SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode forks 3000 uneven-queues 10
        at_least "ops that went by themselves" "$(figure '  eager')" 8500
        [ "$(figure "launches that waited for the GPU, which was far behind")" -eq 0 ]
    done
}
