#!/usr/bin/env bats
# Ranges of NVTX around graph launches, heard by a tool as a profiler brings one.

load common.bash

tool=$AG_BUILD/tests/tools/libtools_nvtx.so

setup() {
    [ -e "$tool" ] || skip "the toolkit has no NVTX"
    cd "$BATS_TEST_TMPDIR" || return 1
    export NVTX_HEARD=$PWD/heard
}

heard() { # FIELD
    sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" heard
}

loop() {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_STATS=1 AUTOGRAPH_TEST_BUILD=inline "$AG_BUILD/examples/loop_driver" \
        --steps=100 --reps=2 "$@"
}

@test "each graph launch is a range, which says how many launches it carries" {
    NVTX_INJECTION64_PATH=$tool run loop
    [ "$status" -eq 0 ]
    cat heard
    [ "$(heard domain)" = autograph ]
    counted=$(echo "$output" | sed -n 's/.*replayed \([0-9]*\) of .* in \([0-9]*\) graph launches.*/\1 \2/p')
    [ "${counted#* }" -gt 100 ]
    [ "$(heard launches) $(heard ranges)" = "$counted" ]
    [ "$(heard ended)" = "$(heard ranges)" ]
    [ "$(heard strange)" = 0 ]
}

@test "ranges of many threads are paired on each" {
    NVTX_INJECTION64_PATH=$tool LD_PRELOAD=$PRELOAD "$AG_BUILD/tests/tools/tools_threads"
    [ "$(heard ranges)" -gt 100 ]
    [ "$(heard ended)" = "$(heard ranges)" ]
    [ "$(heard strange)" = 0 ]
}

@test "no tool: nothing is loaded for it" {
    plain=$(LD_DEBUG=files loop 2>&1 | grep -o 'calling init: .*' | sort -u)
    [ -n "$plain" ]
    no grep -qi nvtx <<<"$plain"
    NVTX_INJECTION64_PATH='' loop
    [ ! -e heard ]
    NVTX_INJECTION64_PATH=$tool LD_DEBUG=files loop 2>&1 | grep -q 'calling init: .*libtools_nvtx.so'
}

@test "nothing is replayed: the tool is not asked for" {
    AUTOGRAPH=observe NVTX_INJECTION64_PATH=$tool loop
    [ ! -e heard ]
    AUTOGRAPH=0 NVTX_INJECTION64_PATH=$tool loop
    [ ! -e heard ]
    CUDA_INJECTION64_PATH=/some/profiler.so NVTX_INJECTION64_PATH=$tool loop # it only observes then
    [ ! -e heard ]
    AUTOGRAPH_FORCE=1 CUDA_INJECTION64_PATH=/some/profiler.so NVTX_INJECTION64_PATH=$tool loop
    [ "$(heard ranges)" -gt 100 ]
}

@test "a tool that cannot be loaded changes nothing" {
    NVTX_INJECTION64_PATH=/nowhere.so AUTOGRAPH_LOG=info run loop
    [ "$status" -eq 0 ]
    [[ "$output" == *"NVTX ranges: off"* ]]
    [[ "$output" == *"check=ok"* ]]
}
