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
@test "the driver has a record before a kernel that waits for the program" { forks 50 kernel-behind 40; }
@test "a record by a graph of the program's is not one of the fork" { forks 200 graph-records 40; }
@test "a graph of the program's waits for a record of the fork" { forks 200 graph-waits 40; }

@test "a fork does not wait for the GPU where the queues of its streams have room" {
    SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=inline forks 20000 full-queues 40
    [ "$(figure "launches that waited for the GPU, which was far behind")" -eq 0 ]
}

@test "a fork's own launches behind its graphs do not wait for the GPU where its queue has room" {
    for mode in inline thread; do
        SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode forks 3000 uneven-queues 10
        [ "$(figure "launches that waited for the GPU, which was far behind")" -eq 0 ]
    done
}
