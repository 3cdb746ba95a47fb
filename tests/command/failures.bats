#!/usr/bin/env bats
# What must fail well: everything that a program can see is as without the library.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 # graphs gain little where calls take no time
}

@test "no driver: the program hears of it as ever, and the library says nothing" {
    mkdir empty
    : >empty/libcuda.so.1 # no library, wherever the machine keeps a real one
    LD_LIBRARY_PATH=$PWD/empty same "$AG_BUILD/tests/command/command_no_driver"
    grep -q '^driver: not there' with.out
    [ ! -e summary ]
}

@test "no GPU: cuInit says so" {
    export SIMCUDA_DEVICES=0
    same "$loop"
    grep -q 'no device' with.err
}

@test "a driver older than 12.4: nothing is replayed, and one line says why" {
    export SIMCUDA_VERSION=12030 AUTOGRAPH_LOG=warn
    same "$cases" repeat 50
    cat summary
    [ "$(grep -c 'older than CUDA 12.4' summary)" -eq 1 ]
    [ "$(figure 'graphs built')" -eq 0 ]
    [ "$(figure 'replayed')" -eq 0 ]
    [ "$(figure 'eager')" -eq 0 ] # it is dormant: nothing is looked at
    [ "$(figure 'not looked at')" -eq 1000 ]
}

@test "an export table that nobody knows: replaying stops, and one line says why" {
    export SIMCUDA_TABLES=01020304-0506-0708-090a-0b0c0d0e0f10 AUTOGRAPH_LOG=warn AUTOGRAPH_TEST_BUILD=inline
    same "$cases" table 50
    cat summary
    grep -q 'table: 0, there' with.out
    [ "$(grep -c 'export table that nobody knows' summary)" -eq 1 ]
    replayed=$(figure replayed)
    at_least "replayed before it" "$replayed" 500 # less than 960 where a busy machine makes builds dear
    [ "$replayed" -le 1020 ] # nothing after it
}

@test "an export table that the driver does not have changes nothing" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$cases" table 50
    grep -q 'not there' with.out
    at_least "replayed per cent" "$(replayed_share)" 90
}

# fails CALL: every call of it, that only the library makes, fails.
fails() {
    export AUTOGRAPH_TEST_BUILD=inline
    SIMCUDA_FAIL="$1:3=$2" same "$cases" repeat 50
    SIMCUDA_FAIL="$1:*=$2" same "$cases" repeat 50
    cat summary
}

@test "instantiating fails: eager launches, counted" {
    fails cuGraphInstantiateWithFlags 2
    at_least "failed builds" "$(figure 'graph builds failed')" 1
}

@test "uploading a graph before it is changed fails: it is launched all the same, and that is counted" {
    export AUTOGRAPH_TEST_BUILD=inline
    SIMCUDA_FAIL="cuGraphUpload:1=2" same "$loop" --changing --steps=100 --reps=1
    [ "$(figure 'graph uploads failed')" -eq 1 ]
    SIMCUDA_FAIL="cuGraphUpload:*=2" same "$loop" --changing --steps=100 --reps=1
    cat summary
    at_least "failed uploads" "$(figure 'graph uploads failed')" 2
    at_least "replayed per cent" "$(replayed_share)" 90
}

@test "a wait whose end is unknown: nothing is built any more, and that is counted" {
    export AUTOGRAPH_TEST_BUILD=inline
    SIMCUDA_FAIL="cuEventCreate:1=2" same "$cases" word 60
    cat summary
    [ "$(figure 'waits whose end is unknown, behind which nothing is built any more')" -eq 1 ]
    [ "$(figure 'graphs built')" -eq 0 ]
    SIMCUDA_FAIL="cuEventCreate:1=2" same "$cases" collective 50
    [ "$(figure 'waits whose end is unknown, behind which nothing is built any more')" -eq 1 ]
}

# short CASE N: with so little device memory that graphs are missed.
short() {
    export SIMCUDA_MEMORY_MB=8 SIMCUDA_NODE_BYTES=2800
    same "$cases" "$@"
    cat with.out summary
}

given_back='times that graphs were given back, the program being short of device memory'

@test "an allocation without memory for it: graphs go, and it is made once more; then graphs come again" {
    for AUTOGRAPH_TEST_BUILD in inline thread; do
        export AUTOGRAPH_TEST_BUILD
        short last-mib 200
        [ "$(grep -c '^way .: 0, and more: 2, 1$' with.out)" -eq 5 ]
        # The steps may be over before the builder's thread has had a processor: then there was nothing to give.
        if [ $AUTOGRAPH_TEST_BUILD = thread ]; then continue; fi
        [ "$(figure "$given_back")" -eq 5 ]
        at_least "replayed per cent" "$(replayed_share)" 50
        grep -q ' of 8$' summary # five times halved
        AUTOGRAPH_MEMORY_MB=2 short last-mib 20
        [ "$(figure "$given_back")" -eq 5 ]
        grep -q ' of 1$' summary
    done
}

@test "a program that takes all memory has as much of it as without the library" {
    export AUTOGRAPH_TEST_BUILD=inline
    short all-memory 200
    at_least "given back" "$(figure "$given_back")" 1
    at_least "replayed per cent" "$(replayed_share)" 50
}

@test "threads that launch and run out of memory, each for itself" {
    for AUTOGRAPH_TEST_BUILD in inline thread; do
        export AUTOGRAPH_TEST_BUILD
        same "$cases" too-much 400
        cat with.out summary
        [ $AUTOGRAPH_TEST_BUILD = thread ] || at_least "given back" "$(figure "$given_back")" 10
    done
}

@test "a program that takes 98 per cent of the free memory" {
    export AUTOGRAPH_TEST_BUILD=inline
    short most-memory 50
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "an allocation without memory for it while a host function waits: graphs stay, and that is counted" {
    export SIMCUDA_MEMORY_MB=8 SIMCUDA_NODE_BYTES=2800 AUTOGRAPH_TEST_BUILD=inline SIMCUDA_WAITS=1
    AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$cases" last-mib-and-wait 20 >with.out
    cat with.out summary
    grep -q '^waiting: 2$' with.out
    grep -q '^not waiting: 0$' with.out
    [ "$(figure 'times that the program was short of device memory and graphs stayed, as something waited or was captured, or a thread did not come back from the driver')" -eq 1 ]
}

@test "code, streams, graphs and launches without memory for them are asked for once more" {
    "${eager[@]}" "$cases" refused-once 100 | grep '^module 2, function 2, kernel 2, stream 2, graph 2, launch 2$'
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_SUBMIT=inline # what is handed over is not asked for once more
    AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$cases" refused-once 100 >with.out
    cat with.out summary
    grep -q '^module 0, function 0, kernel 0, stream 0, graph 0, launch 0$' with.out
    [ "$(figure "$given_back")" -eq 6 ]
}

@test "a program that is short of pinned memory hears so, and graphs stay" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$cases" pinned-memory 100
    cat with.out summary
    [ "$(grep -c '^host alloc 2, alloc host 2, register 2$' with.out)" -eq 3 ]
    [ "$(figure "$given_back")" -eq 0 ]
    at_least "graphs" "$(figure 'graphs built')" 1
}

@test "adding a node fails: eager launches" {
    fails cuGraphAddKernelNode_v2 2
    at_least "failed builds" "$(figure 'graph builds failed')" 1
}

@test "updating a node fails: eager launches, counted" {
    export AUTOGRAPH_TEST_BUILD=inline
    SIMCUDA_FAIL="cuGraphExecKernelNodeSetParams_v2:*=1" same "$loop" --changing --steps=50 --reps=1
    cat summary
    at_least "failed updates" "$(figure 'node updates failed')" 1
    SIMCUDA_FAIL="cuGraphExecKernelNodeSetParams_v2:7=1" same "$loop" --changing --steps=50 --reps=1
}

@test "launching a graph fails: eager launches, counted" {
    fails cuGraphLaunch 2
    at_least "failed graph launches" "$(figure 'graph launches failed')" 1
}

@test "a launch that the driver refuses in the middle of a known step: the same error at the same call" {
    needs_own_kernels # fences: the program's results are in memory of the host
    AUTOGRAPH_TEST_BUILD=inline same "$faults" bad-launch
    [ "$(figure 'launches that the driver refused')" -eq 2 ]
    at_least "replayed per cent" "$(replayed_share)" 80
    same "$cases" refused 50
    grep -q '^no arguments: [1-9]' with.out
    [ "$(figure 'launches that the driver refused')" -eq 6 ]
}

@test "a kernel that traps" {
    needs_own_kernels # fences: the program's results are in memory of the host
    AUTOGRAPH_TEST_BUILD=inline same "$faults" trap
    grep -q 'sync answers 719' with.out
    at_least "replayed per cent" "$(replayed_share)" 50
}

@test "a program that looks at mapped memory after a launch, without any call" {
    needs_own_kernels # fences: the program's results are in memory of the host
    export AUTOGRAPH_TEST_BUILD=inline
    sees_its_flag_within 20000 # far more than by default, for a machine that is busy with other things
    cat summary
    at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 1
}

@test "fork after CUDA has started" {
    needs_own_kernels # fences: the program's results are in memory of the host
    AUTOGRAPH_TEST_BUILD=inline same "$faults" fork
    grep -q 'child ended with 0' with.out
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "the end of the process without a sync" {
    needs_own_kernels # fences: the program's results are in memory of the host
    AUTOGRAPH_TEST_BUILD=inline same "$faults" exit
    at_least "replayed per cent" "$(replayed_share)" 50
    same "$faults" exit-at-once
}

@test "work deferred at the end of the process reaches the driver" {
    # The simulated driver's log tells what ran; it waits for nobody at exit, so only what was submitted counts.
    for run in "env LD_PRELOAD=$AG_RUNTIME" "env LD_PRELOAD=$preload"; do
        rm -f log
        AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=1000000 SIMCUDA_MODE=inline SIMCUDA_LOG=$PWD/log $run "$faults" exit || [ $? -eq 3 ]
        grep -c ' exec .* kernel ' log >>counts
    done
    cat counts
    [ "$(sed -n 1p counts)" -eq 1205 ]
    [ "$(sed -n 2p counts)" -eq 1205 ]
}

@test "a module is unloaded with launches of its kernel deferred" {
    same "$faults" unload
    grep -q 'unload answers 0' with.out
    at_least "all sequences invalidated" "$(figure 'module unload)')" 1
}

@test "a context is destroyed with work deferred" {
    same "$faults" destroy-context
    [ "$(grep -c 'destroy answers 0' with.out)" -eq 3 ]
}

@test "memory is freed with work deferred" { same "$faults" free; }
@test "a stream is destroyed with work deferred" { same "$faults" destroy-stream; }
