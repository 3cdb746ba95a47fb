#!/usr/bin/env bats
# What a process may do while work is deferred. FUZZ_BUILD is the build directory of the project.

setup() {
    program=$FUZZ_BUILD/tests/fuzz/fuzz_process
    library=${AG_RUNTIME:+$AG_RUNTIME:}$FUZZ_BUILD/preload/libautograph.so # a sanitizer's runtime wants to be first
    log=$BATS_TEST_TMPDIR/log
    # Deferral as long as possible: nobody but the end itself submits the work.
    export AUTOGRAPH_MAX_DEFER_US=1000000 AUTOGRAPH_GATE=0
}

# Runs a mode under the library with both places of building.
under_library() {
    for build in inline thread; do
        run env AUTOGRAPH_BUILD=$build LD_PRELOAD="$library" timeout 60 "$@"
        echo "$build: status $status: $output"
        [ "$status" -eq "${expect:-0}" ]
    done
}

same_kernels() {
    run timeout 60 "$program" "$1"
    [ "$status" -eq 0 ]
    eager=$output
    [[ $eager == kernels* ]]
    for build in inline thread; do
        run env AUTOGRAPH_BUILD=$build LD_PRELOAD="$library" timeout 60 "$program" "$1"
        echo "$build: status $status: $output, eagerly $eager"
        [ "$status" -eq 0 ]
        [ "$output" = "$eager" ]
    done
}

# The kernels that were executed by the end of the process: 30 steps of 7 launches, and 3.
kernels_at_the_end() {
    SIMCUDA_MODE=inline SIMCUDA_LOG=$log AUTOGRAPH_BUILD=inline LD_PRELOAD="$library" timeout 60 "$program" "$1"
    [ "$(grep -c ' kernel hash ' "$log")" -eq 213 ]
}

@test "work is deferred at the end of these programs" {
    AUTOGRAPH_STATS=1 under_library "$program" handed
    [[ $output == *"replayed"* ]]
    AUTOGRAPH_STATS=1 AUTOGRAPH_BUILD=inline LD_PRELOAD="$library" run "$program" exit
    [[ $output =~ flushed\ [1-9] || $output =~ shorter\ graphs\ [1-9] ]]
}

@test "exit submits what is deferred" {
    kernels_at_the_end exit
}

@test "releasing the primary context submits what is deferred" {
    same_kernels release
}

@test "quick_exit and _exit end the process" {
    under_library "$program" quick_exit
    under_library "$program" _exit
}

@test "fork with work deferred: the child is as without the library, the parent goes on" {
    same_kernels fork
}

@test "exec with work deferred" {
    under_library "$program" exec
    [ "$output" = "another program" ]
}

@test "abort and a deadly signal end the process with their status" {
    expect=134 under_library "$program" abort
    expect=143 under_library "$program" kill
}

@test "signals that interrupt everything change nothing" {
    under_library "$program" signals
    [ "$output" = "signals" ]
}

@test "a thousand threads come and go" {
    same_kernels threads
}

@test "a sequence that goes from thread to thread" {
    same_kernels handed
}

@test "the model: queries, records and waits of the legacy stream order nothing, a wait for it and work in it do" {
    judged() {
        printf '0 %s\n' "load 0 0" "stream 4 0" "stream 5 0" "event 0 0" "alloc 2 0 30" "alloc 0 0 268" "copy 4 2 4 0 2 14 0" \
            "$1" "launch 5 0 0 0 4 2 6 0 128 773" | "$FUZZ_BUILD/tests/fuzz/fuzz_program" - | head -n 1
    }
    for op in "query 0 1" "wait 1 0" "record 0 1 0"; do
        [ "$(judged "$op")" = "program -: 9 ops, 1 skipped" ]
    done
    for op in "sync 0 1" "fill 1 1 0 366 152 1 92 0"; do
        [ "$(judged "$op")" = "program -: 9 ops, 0 skipped" ]
    done
}
