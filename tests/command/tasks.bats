#!/usr/bin/env bats
# Programs that make a stream for each of their tasks and destroy it: a stream goes on with what one of its kind had
# learnt, and with nothing else of that.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline
    export AUTOGRAPH_MAX_DEFER_US=1000000 # the watchdog is not to do what the end of a step does
}

# taken: how many streams went on with what another one had learnt.
taken() {
    figure 'streams that went on with what one that had been destroyed had learnt'
}

# tasks CASE N: `same`, and the summary.
tasks() {
    same "$tasks" "$@"
    cat with.out summary
    none grep -q WRONG with.out
    [ "$(figure "mistakes of this library's own, each of which made a stream eager")" -eq 0 ]
}

@test "a stream for each task goes on with what the last one had learnt" {
    AUTOGRAPH_TEST_CHUNK=6 tasks plain 60 # else it depends on the pace how many graphs a step has
    [ "$(taken)" -eq 59 ]
    at_least "replayed per cent" "$(replayed_share)" 99
    [ "$(figure 'graphs built')" -le 12 ]
}

@test "the same where a thread of the library builds and launches the graphs" {
    AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_BUILD=thread tasks plain 60
    [ "$(taken)" -eq 59 ]
    at_least "replayed per cent" "$(replayed_share)" 50 # the threads may come late
}

@test "streams by turns meet what they had learnt themselves" {
    for order in forwards backwards; do
        AUTOGRAPH_TEST_CHUNK=6 tasks $order 30
        [ "$(taken)" -eq 87 ]
        at_least "replayed per cent" "$(replayed_share)" 99
        [ "$(figure 'graphs built')" -le 8 ] # two for each of the three, ten if any meets what another has learnt
    done
}

@test "several threads, each with a stream for each task" {
    for build in inline thread; do
        AUTOGRAPH_TEST_BUILD=$build tasks threads 60
        at_least "streams that went on" "$(taken)" 200 # of 240
    done
    SIMCUDA_SLOW_US=20 tasks threads 20
}

@test "a stream of another context, kind or priority takes nothing" {
    tasks kinds 1
    [ "$(taken)" -eq 0 ]
    tasks kinds 20
    [ "$(taken)" -eq 76 ]
    at_least "replayed per cent" "$(replayed_share)" 98
}

@test "what a stream has learnt ends with its context" {
    for handles in unique reuse; do
        SIMCUDA_HANDLES=$handles tasks contexts 20
        [ "$(taken)" -eq 39 ] # one in each of the 20, and 19 of the other
    done
    at_least "replayed per cent" "$(replayed_share)" 90
}

@test "a stream that works when it is destroyed passes on what it has learnt when it has ended" {
    needs_own_kernels # fences: a word in memory of the host
    for submit in inline thread; do
        for case in busy working; do
            AUTOGRAPH_SUBMIT=$submit AG_TIMEOUT=60 tasks $case 20
            [ "$(taken)" -eq 38 ] # all but the first two of 40
            at_least "replayed ops" "$(figure replayed)" 4000
        done
    done
}

@test "threads with a default stream each end and begin beside a blocking stream that works" {
    needs_own_kernels
    AG_TIMEOUT=60 tasks beside-blocking 10
}

@test "what begins to wait waits for who submits a per-thread default stream's ops" {
    export AUTOGRAPH_MAX_DEFER_US=500 AUTOGRAPH_TEST_CHUNK=12
    for submit in inline thread; do
        AUTOGRAPH_SUBMIT=$submit AG_TIMEOUT=60 tasks gates 30
        SIMCUDA_LATE=autograph-watch:2000 AUTOGRAPH_SUBMIT=$submit AG_TIMEOUT=60 tasks gates 30
    done
}

@test "streams that work when they are destroyed end with their context, and where there are too many" {
    for n in 3 40; do
        tasks still-working $n
        [ "$(taken)" -eq 0 ]
    done
}

@test "a stream whose work cannot be marked passes nothing on" {
    needs_own_kernels
    SIMCUDA_FAIL=cuEventCreate:1-1000=2 tasks working 5
    at_least "taken" "$(taken)" 4
    [ "$(taken)" -le 5 ]
}

@test "streams that work when they are destroyed build no more than pays, and a long one behind them is replayed" {
    AUTOGRAPH_TEST_PROFIT=2 AUTOGRAPH_TEST_BUILD=thread # the price of a build, and no trials
    SIMCUDA_LATE=autograph-build:5 tasks short 1500
    [ "$(figure 'graphs built')" -le 400 ] # each by itself would build one or more, as far as there is room
}

@test "what building has cost a stream too much lapses, and it builds again" {
    AUTOGRAPH_TEST_PROFIT=2 AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_CHUNK=12
    SIMCUDA_LATE=autograph-build:5 tasks phases 2000
    [ "$(figure 'graph builds put off, building has cost more than replaying gained')" -gt 0 ]
}

@test "attributes and captures end with their stream" {
    tasks properties 30
    [ "$(taken)" -eq 39 ]
    [ "$(figure 'ops on streams with properties that graphs lack, submitted at once')" -eq 1200 ]
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "limits, attributes of kernels and modules change between two tasks" {
    for handles in unique reuse; do
        SIMCUDA_HANDLES=$handles tasks changes 12
        [ "$(taken)" -eq 35 ]
    done
}

@test "32 streams are kept, and their graphs are given back when memory is short" {
    tasks many 40
    [ "$(taken)" -eq 33 ]
    grep -q '^graphs left: 0$' with.out
    [ "$(figure 'times that graphs were given back, the program being short of device memory')" -eq 1 ]
}

@test "contexts end beside a thread that destroys more streams than are kept" {
    for build in inline thread; do
        AUTOGRAPH_TEST_BUILD=$build tasks crowds 20
        SIMCUDA_HANDLES=reuse SIMCUDA_SLOW_US=20 AUTOGRAPH_TEST_BUILD=$build tasks crowds 4
    done
}

@test "graphs of streams that were destroyed count for the memory budget, and go to make room" {
    AUTOGRAPH_MEMORY_MB=1 AUTOGRAPH_TEST_BUILD=thread tasks room 8
    at_least "graphs dropped" "$(figure 'graphs dropped')" 1
}

@test "a dump names each stream by itself, and the graphs that it went on with" {
    [ -e "$AG_BUILD/tools/autograph" ] || skip "the command is not built"
    AUTOGRAPH_TRACE=$PWD/dump tasks plain 20
    "$AG_BUILD/tools/autograph" report dump >report
    grep -q ' of 4800 launches went as graphs' report
    "$AG_BUILD/tools/autograph" timeline dump >timeline
    grep -q '"name":"stream 20"' timeline
    none grep -q '"name":"stream 21"' timeline
    "$AG_BUILD/tools/autograph" graphs --format=csv dump >graphs
    at_least "graphs" "$(lines_of graphs)" 2
    "$AG_BUILD/tools/autograph" replay dump >replay
    grep -q '^ launches  *4800 ' replay
}
