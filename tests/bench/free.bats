#!/usr/bin/env bats
# libautograph_free.so: ops answer at once and do nothing, all else is the driver's.

load ../command/common.bash
setup() {
    common_setup
    free=$AG_BUILD/tests/bench/libautograph_free.so
    export SIMCUDA_LOG=$PWD/log
}

# calls NAME: how often the driver was called by that name.
calls() {
    awk -v name="$1" '$2 == "call" && $4 == name' log | wc -l
}

@test "launches and memsets do not reach the driver, syncs do" {
    LD_PRELOAD=$AG_RUNTIME:$free run "$loop" --memsets --steps=10 --reps=1
    [ "$status" -eq 1 ] # the result is wrong
    [[ "$output" == *check=WRONG* ]]
    [ "$(calls cuLaunchKernel)" -eq 0 ]
    [ "$(calls cuMemsetD32Async)" -eq 0 ]
    [ "$(calls cuStreamSynchronize)" -ge 20 ]
}

@test "as many ops as the file says run as usual, and are counted" {
    printf '\x90\x01\0\0\0\0\0\0' >count # 400: all of them
    export AG_FREE_FILE=$PWD/count
    LD_PRELOAD=$AG_RUNTIME:$free "$loop" --steps=10 --reps=1
    [ "$(calls cuLaunchKernel)" -eq 400 ]
    printf '\x64\0\0\0\0\0\0\0' >count
    LD_PRELOAD=$AG_RUNTIME:$free run "$loop" --steps=10 --reps=1
    [ "$(calls cuLaunchKernel)" -eq 100 ]
    cmp count <(printf '\0\0\0\0\0\0\0\0')
}

@test "a file that is not there ends the program" {
    LD_PRELOAD=$AG_RUNTIME:$free AG_FREE_FILE=$PWD/none run "$loop" --steps=10 --reps=1
    [ "$status" -eq 96 ]
}
