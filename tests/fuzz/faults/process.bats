#!/usr/bin/env bats
# What a process may do while work is deferred. FUZZ_BUILD is the build directory of the project.

setup() {
    program=$FUZZ_BUILD/tests/fuzz/fuzz_process
    library=${AG_RUNTIME:+$AG_RUNTIME:}$FUZZ_BUILD/preload/libautograph.so # a sanitizer's runtime wants to be first
    log=$BATS_TEST_TMPDIR/log
    # Deferral as long as possible: nobody but the end itself submits the work.
    # The output is the program's alone: on a busy machine a builder's thread comes late, and the library would say so.
    export AUTOGRAPH_MAX_DEFER_US=1000000 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_LOG=off
}

# Who builds the graphs, the program's thread or one of the library's, and who launches them. In the last setting the one that
# launches is late now and then.
settings=(AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_BUILD=thread "AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_SUBMIT=thread"
    "AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_SUBMIT=thread SIMCUDA_LATE=autograph-send:300")
[ -z "${AG_RUNTIME-}" ] || settings=("${settings[1]}" "${settings[3]}") # a sanitizer makes each run long

# with SETTING COMMAND...
with() {
    # shellcheck disable=SC2086 # several variables
    env $1 LD_PRELOAD="$library" timeout 60 "${@:2}"
}

# Runs a mode under the library in each setting.
under_library() {
    for setting in "${settings[@]}"; do
        run with "$setting" "$@"
        echo "$setting: status $status: $output"
        [ "$status" -eq "${expect:-0}" ]
    done
}

same_kernels() {
    run timeout 60 "$program" "$1"
    [ "$status" -eq 0 ]
    eager=$output
    [[ $eager == kernels* ]]
    for setting in "${settings[@]}"; do
        run with "$setting" "$program" "$1"
        echo "$setting: status $status: $output, eagerly $eager"
        [ "$status" -eq 0 ]
        [ "$output" = "$eager" ]
    done
}

# The kernels that were executed by the end of the process: 30 steps of 7 launches, and 3.
kernels_at_the_end() {
    for setting in "${settings[@]}"; do
        SIMCUDA_MODE=inline SIMCUDA_LOG=$log with "$setting" "$program" "$1"
        [ "$(grep -c ' kernel hash ' "$log")" -eq 213 ]
    done
}

@test "work is deferred at the end of these programs" {
    AUTOGRAPH_STATS=1 under_library "$program" handed
    [[ $output == *"replayed"* ]]
    # chunks of a step: a slow host would get shorter ones, and the three launches behind the last step fill those
    AUTOGRAPH_STATS=2 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_CHUNK=7 LD_PRELOAD="$library" run "$program" exit
    echo "$output"
    [[ $output =~ flushed\ [1-9] || $output =~ shorter\ graphs\ [1-9] ]]
    # and these are handed to the library's thread
    for mode in handed exit; do
        AUTOGRAPH_LOG= AUTOGRAPH_STATS=2 run with "${settings[-1]}" "$program" $mode
        echo "$output"
        [[ $output =~ "left to the library's own thread: "[1-9] ]]
    done
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
    for op in "query 0 1" "wait 1 0 0" "record 0 1 0"; do
        [ "$(judged "$op")" = "program -: 9 ops, 1 skipped" ]
    done
    for op in "sync 0 1" "fill 1 1 0 366 152 1 92 0"; do
        [ "$(judged "$op")" = "program -: 9 ops, 0 skipped" ]
    done
}

@test "the model of a GPU: what copies from the host's memory and launches of empty graphs do not wait for" {
    judged() {
        printf '0 %s\n' "load 0 0" "stream 4 0" "stream 5 1" "event 0 0" "alloc 0 0 30" "alloc 2 1 30" "alloc 3 2 30" "alloc 4 0 30" \
            "sync 1 0" "launch 1 0 0 0 0 $1 6 0 12 7" "${@:2}" | "$FUZZ_BUILD/tests/fuzz/fuzz_program" --real - | head -n 1
    }
    # From pinned (2), managed (3) and device (4) memory that the legacy stream writes, to device memory:
    [ "$(judged 2 "copy 4 0 0 2 0 8 3")" = "program -: 11 ops, 1 skipped" ]
    [ "$(judged 3 "copy 4 0 0 3 0 8 1")" = "program -: 11 ops, 1 skipped" ]
    [ "$(judged 4 "copy 4 0 0 4 0 8 0")" = "program -: 11 ops, 0 skipped" ]
    # ... behind an event, in the same stream, or where the host has waited:
    [ "$(judged 2 "record 0 1 0" "wait 5 0 0" "copy 5 0 0 2 0 8 3")" = "program -: 13 ops, 0 skipped" ]
    [ "$(judged 2 "copy 1 0 0 2 0 8 3")" = "program -: 11 ops, 0 skipped" ]
    [ "$(judged 2 "sync 0 1" "copy 4 0 0 2 0 8 3")" = "program -: 12 ops, 0 skipped" ]
    # A graph of nothing, and one of a kernel, launched in the legacy stream and then in one that does not wait for it:
    again="launch 5 0 0 0 0 0 6 0 12 7"
    [ "$(judged 0 "begin 4 2" "end 4 0" "inst 0" "glaunch 0 1" "glaunch 0 5" "$again")" = "program -: 16 ops, 1 skipped" ]
    [ "$(judged 0 "build 0 0 1 4 7 0 0" "inst 0" "glaunch 0 1" "glaunch 0 5" "$again")" = "program -: 15 ops, 0 skipped" ]
}
