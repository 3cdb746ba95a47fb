#!/usr/bin/env bats
# Fills and copies of memory that can be unmapped or move: of a pool, or mapped by the program. In graphs they are
# launches of the library's own kernels, whose arguments the driver neither looks at nor keeps.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000 SIMCUDA_FATBINS=1
}

# runs CASE STEPS: with the same result, without misuse.
runs() {
    same "$AG_BUILD/tests/command/command_movable" "$@"
    cat with.out summary
    [ "$(cat eager.status)" -eq 0 ]
    none grep -q misuse with.err
}

# replays CASE STEPS: most of the ops are submitted by graphs, and all of them are recordable.
replays() {
    runs "$@"
    at_least "replayed per cent" "$(replayed_share)" 80
    none grep -q 'ops that cannot be recorded' summary
}

# nodes CASE STEPS KIND: how many such nodes are made of it.
nodes() {
    SIMCUDA_LOG=$PWD/log under "$AG_BUILD/tests/command/command_movable" "$1" "$2" >/dev/null
    grep -c " call [0-9]* cuGraphAdd$3Node" log || true
}

@test "memory of a pool" {
    needs_own_kernels
    replays pool 100
    [ "$(nodes pool 100 Memset)" -eq 0 ]
    [ "$(nodes pool 100 Memcpy)" -eq 0 ]
}

@test "memory of a pool that is allocated and freed in each step" {
    needs_own_kernels
    replays pool-each-step 100
}

@test "memory that the program maps in pieces" {
    needs_own_kernels
    replays mapped 100
    [ "$(nodes mapped 100 Memset)" -eq 0 ]
    [ "$(nodes mapped 100 Memcpy)" -eq 0 ]
}

@test "of memory that the program maps, one piece is made to wait" {
    runs mapped-waits 60
    grep -qx 'late: no' with.out
}

@test "what is mapped is left to the driver once it may be a multicast object, and pools are not" {
    needs_own_kernels
    runs multicast 100
    [ "$(figure 'ops that cannot be recorded .*submitted at once')" -eq 150 ]
    replays pool 100
}

@test "copies of plain memory are copy nodes" {
    replays plain 100
    at_least "copy nodes" "$(nodes plain 100 Memcpy)" 1
}

@test "copies of a pool's memory, of all alignments" {
    needs_own_kernels
    replays alignments 300
    [ "$(nodes alignments 300 Memcpy)" -eq 0 ]
}

@test "memory that moves to and fro under known steps" {
    needs_own_kernels
    runs remapped 100
    at_least "replayed per cent" "$(replayed_share)" 50
}

@test "what the driver refuses eagerly it refuses" {
    runs refusals 1
    runs ended 1
    runs neighbours 3
    needs_own_kernels
    at_least "replayed per cent" "$(replayed_share)" 70
}

# A step is one graph. Else the clock decides where graphs end, and a fill that is in none the driver refuses by itself.
@test "what a graph of the program's has freed is refused: by a node of its own, by one of any kind, captured" {
    export AUTOGRAPH_TEST_CHUNK=1024
    for how in 0 1 2; do runs freed-by-graph $how; done
    needs_own_kernels
    at_least "replayed per cent" "$(replayed_share)" 50
}

@test "memory of another device is the driver's affair" {
    runs other-device 100
    at_least "ops not recorded" "$(figure 'ops that cannot be recorded .*submitted at once')" 200
}

# look_ups CASE STEPS: how often the driver is asked what lies at an address.
look_ups() {
    SIMCUDA_LOG=$PWD/log under "$AG_BUILD/tests/command/command_movable" "$1" "$2" >/dev/null
    grep -c " call [0-9]* cuPointerGetAttributes" log || true
}

@test "what memory it is that no graph may name is asked once" {
    runs foreign 100
    at_least "ops not recorded" "$(figure 'ops that cannot be recorded .*submitted at once')" 300
    few=$(look_ups foreign 20) many=$(look_ups foreign 100)
    echo "look-ups: $few, $many"
    [ "$few" -eq "$many" ]
}

@test "large copies: a node of plain memory, and a call of mapped memory" {
    needs_own_kernels
    replays large-plain 100
    at_least "copy nodes" "$(nodes large-plain 100 Memcpy)" 1
    runs large-mapped 100
    at_least "ops not recorded" "$(figure 'ops that cannot be recorded .*submitted at once')" 100
    [ "$(nodes large-mapped 100 Memcpy)" -eq 0 ]
}

@test "without the library's kernels such memory is left to eager calls" {
    export SIMCUDA_FATBINS=0
    for case in pool mapped remapped; do # a fill and two copies in each step
        runs "$case" 50
        at_least "ops not recorded" "$(figure 'ops that cannot be recorded .*submitted at once')" 150
    done
    runs refusals 1
}

@test "all of it by the builder's thread" {
    export AUTOGRAPH_TEST_BUILD=thread
    for case in plain pool pool-each-step mapped multicast remapped refusals ended neighbours other-device foreign large-plain alignments; do
        runs "$case" 60
    done
}
