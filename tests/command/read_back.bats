#!/usr/bin/env bats
# Small copies to the host at the end of each step: the library's copy kernel makes them, as the last node of a graph.

load common.bash
setup() {
    common_setup
    reads=$AG_BUILD/tests/command/command_read_back
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000 SIMCUDA_FATBINS=1
}

# driver_copies CASE: how many copies of 100 steps the driver makes itself.
driver_copies() {
    SIMCUDA_LOG=$PWD/log under "$reads" "$1" 100 >/dev/null
    grep -c " call [0-9]* cuMemcpyDtoH" log || true
}

# in_graphs CASE, by_driver CASE: the same as without the library, whoever launches the graphs.
in_graphs() {
    needs_own_kernels
    for how in inline thread; do
        export AUTOGRAPH_SUBMIT=$how
        same "$reads" "$1" 100
        cat summary
        at_least "replayed per cent" "$(replayed_share)" 80
        [ "$(driver_copies "$1")" -le 20 ]
    done
}
by_driver() {
    for how in inline thread; do
        export AUTOGRAPH_SUBMIT=$how
        same "$reads" "$1" 100
        cat summary
        [ "$(driver_copies "$1")" -ge 100 ]
    done
}

@test "copies to the stack" { in_graphs stack; }
@test "copies without a stream" { in_graphs sync; }
@test "copies without a stream to pinned memory" { in_graphs sync-pinned; }
@test "copies to pinned memory" { in_graphs pinned; }
@test "copies to memory that the program has registered" { in_graphs registered; }
@test "a pinned word that the host polls without a call comes" {
    for how in inline thread; do AUTOGRAPH_MAX_DEFER_US=5000 AUTOGRAPH_SUBMIT=$how same "$reads" polled 100; done
}
@test "copies to managed memory are the driver's" { by_driver managed; }
@test "large copies are the driver's" { by_driver large; }
@test "copies behind no other op are the driver's" { by_driver alone; }
@test "copies behind nothing but records are the driver's" { by_driver recorded; }
@test "a loop begins behind its copy" {
    needs_own_kernels
    same "$reads" first 3000
    at_least "replayed per cent" "$(replayed_share)" 80
}
@test "the refusal of a copy is told once, and only where the program's own call is refused" {
    export AUTOGRAPH_TEST_CHUNK=16 # on a slow machine a graph would end with the copy, and no call be refused
    for how in inline thread; do
        export AUTOGRAPH_SUBMIT=$how
        for case in refused refused-sync refused-held; do same "$reads" $case 60; done
    done
}
@test "the error of one context neither shows in another nor ends its replay" {
    needs_own_kernels
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how same "$reads" contexts 50
        at_least "replayed per cent" "$(replayed_share)" 80
    done
}
@test "a copy without a stream comes behind what a blocking stream holds back" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how same "$reads" behind 100; done
}
@test "threads whose streams share a place" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how same "$reads" threads 200; done
}
@test "graphs that cannot be launched" {
    needs_own_kernels
    for how in inline thread; do
        for fail in "3=2" "40=2" "*=2"; do
            for case in stack sync pinned; do AUTOGRAPH_SUBMIT=$how SIMCUDA_FAIL="cuGraphLaunch:$fail" same "$reads" $case 100; done
        done
    done
}
@test "memory that cannot be registered" {
    SIMCUDA_FAIL="cuMemHostRegister_v2:*=2" same "$reads" stack 100
    [ "$(SIMCUDA_FAIL="cuMemHostRegister_v2:*=2" driver_copies stack)" -ge 100 ]
}
# Dormant streams do not count these copies. If streams that replay did, a program would seem twice as fast with graphs.
@test "copies do not count where the library compares itself with eager launches" {
    needs_own_kernels
    as_fast_as_eager "$reads" busy
}
