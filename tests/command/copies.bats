#!/usr/bin/env bats
# Fills and copies by calls that take no stream, which wait for nothing if the memory is a device's, and copies of
# several rows. In graphs the latter are launches of the library's copy kernel.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000 SIMCUDA_FATBINS=1
}

# runs CASE STEPS: with the same result, without misuse.
runs() {
    same "$AG_BUILD/tests/command/command_copies" "$@"
    cat with.out summary
    [ "$(cat eager.status)" -eq 0 ]
    none grep -q misuse with.err
}

# replays CASE STEPS PERCENT: that many of the ops are submitted by graphs, and all of them are recordable.
replays() {
    runs "$1" "$2"
    at_least "replayed per cent" "$(replayed_share)" "$3"
    none grep -q 'ops that cannot be recorded' summary
}

@test "fills and copies that take no stream are ops of the default stream" {
    replays no-stream 100 80
    at_least "ops" "$(figure 'replayed [0-9]* of')" 1
    # four launches, six fills and a copy in each of 100 steps
    grep -Eq 'replayed [0-9]+ of 11[0-9][0-9] ops' summary
}

@test "copies of several rows, by every call, to and fro in one array as well" {
    needs_own_kernels
    replays rows 100 80
    grep -Eq 'replayed [0-9]+ of 10[0-9][0-9] ops' summary # five launches and five copies
}

@test "copies of several rows by the builder's thread, by the submitter, and one by one" {
    needs_own_kernels
    AUTOGRAPH_TEST_BUILD=thread runs rows 60
    AUTOGRAPH_SUBMIT=thread runs rows 60
    AUTOGRAPH_SUBMIT=thread runs no-stream 60
    AUTOGRAPH_MAX_DEFER_US=1 runs rows 60
}

@test "without the library's kernels copies of rows are left to the driver" {
    export SIMCUDA_FATBINS=0
    runs rows 50
    at_least "ops not recorded" "$(figure 'ops that cannot be recorded .*submitted at once')" 250
}

@test "copies that the driver must do or refuse itself" {
    runs left-to-driver 50
    at_least "replayed per cent" "$(replayed_share)" 50
}

@test "calls that take no stream wait where the program wants that: memory, all of the context" {
    for how in 0 1; do
        runs waits $how
        grep -qx 'late: no' with.out
    done
    runs waits 2
    at_least "replayed per cent" "$(replayed_share)" 80
}

# look_ups CASE STEPS: how often the driver is asked what lies at an address.
look_ups() {
    SIMCUDA_LOG=$PWD/log under "$AG_BUILD/tests/command/command_copies" "$1" "$2" >/dev/null
    grep -c " call [0-9]* cuPointerGetAttributes" log || true
}

@test "memory is made to wait while another thread copies to it" {
    SIMCUDA_SLOW_US=2000 runs waits-beside 20
    grep -qx 'late: no' with.out
}

@test "a launch that may begin early comes behind no kernel that stands for a copy" {
    for mode in inline thread; do
        SIMCUDA_LOG=$PWD/log.%p AUTOGRAPH_SUBMIT=$mode replays programmatic 100 50
    done
    grep -q ' call [0-9]* cuMemcpy3DAsync' log.*
    none awk '$2 == "call" { if (before == "cuLaunchKernel" && $4 == "cuLaunchKernelEx") found = 1; before = $4 }
        END { exit !found }' log.*
}

@test "records that are due are made before a copy between devices in the default stream, by every call" {
    for how in 0 1 2; do
        rm -f log.*
        SIMCUDA_LOG=$PWD/log.%p runs records-due $how
        for log in log.*; do # of the eager run there is none
            awk '$4 == "cuDeviceComputeCapability" { at++ } at == 1 && $4 == "cuEventRecord" { n++ } END { print n + 0 }' "$log"
        done >made
        cat made
        [ "$(sort made | tr '\n' ' ')" = '0 3 ' ]
    done
}

@test "where a program has many allocations, what each of them is is asked once" {
    replays many 100 60
    few=$(look_ups many 20) many=$(look_ups many 60)
    echo "look-ups: $few, $many"
    at_least "look-ups" "$few" 60
    [ "$few" -eq "$many" ]
    runs very-many 8
}

@test "a program that launches nothing into its default stream" {
    runs elsewhere 100
    at_least "replayed per cent" "$(replayed_share)" 60
}
