#!/usr/bin/env bats
# simdriver.bats - the simulated driver as a process sees it: binding, environment, exit.
# SIMCUDA_BUILD is the folder with libcuda.so.1 and the programs.

setup() {
    export LD_LIBRARY_PATH="$SIMCUDA_BUILD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    B=$SIMCUDA_BUILD
}

@test "a client that binds as cudart does gets every entry point" {
    run "$B/simdriver_client_getter"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "asked 637 answered 637" ]
}

@test "an older driver hides newer entry points from the getter" {
    SIMCUDA_VERSION=12030 run "$B/simdriver_client_getter"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" =~ ^asked\ 637\ answered\ 5[0-9][0-9]$ ]]
}

@test "no device: cuInit says so" {
    SIMCUDA_DEVICES=0 run "$B/simdriver_prog_exit"
    [ "$status" -eq 1 ]
    [[ "$output" == *"cuInit(0) gave 100"* ]]
}

@test "a call fails when it was told to" {
    SIMCUDA_FAIL="cuMemAlloc_v2:1=2" run "$B/simdriver_prog_exit"
    [ "$status" -eq 1 ]
    [[ "$output" == *"cuMemAlloc_v2"*"gave 2"* ]]
    SIMCUDA_FAIL="cuMemAlloc_v2:2=2" run "$B/simdriver_prog_exit"
    [ "$status" -eq 0 ]
    SIMCUDA_FAIL="cuNothing:1=2" run "$B/simdriver_prog_exit"
    [[ "$output" == *"is not symbol:count=error"* ]]
}

@test "a program may end with work that never does" {
    run timeout 60 "$B/simdriver_prog_exit" pending
    [ "$status" -eq 0 ]
    [ "$output" = "leaving" ]
}

@test "calls in atexit handlers still work" {
    run timeout 60 "$B/simdriver_prog_exit" atexit
    [ "$status" -eq 0 ]
    [ "$output" = "value 1" ]
}

@test "the log holds calls and executed work in one order" {
    log=$BATS_TEST_TMPDIR/log.%p
    SIMCUDA_LOG=$log run "$B/simdriver_prog_exit" atexit
    [ "$status" -eq 0 ]
    log=$(ls "$BATS_TEST_TMPDIR"/log.*)
    grep -Eq '^[0-9]+ call [0-9]+ cuDevicePrimaryCtxRelease_v2 0$' "$log"
    grep -Eq '^[0-9]+ exec 1 kernel hash 1,1,1 1,1,1 0 [0-9a-f]{16}$' "$log"
    [ "$(cut -d' ' -f1 "$log" | sort -n | uniq | wc -l)" -eq "$(wc -l <"$log")" ]
}

@test "argument digests are the same from run to run" {
    for i in 1 2; do
        SIMCUDA_LOG=$BATS_TEST_TMPDIR/$i "$B/simdriver_prog_exit" atexit
        grep -o 'exec .*' "$BATS_TEST_TMPDIR/$i" >"$BATS_TEST_TMPDIR/exec.$i"
    done
    cmp "$BATS_TEST_TMPDIR/exec.1" "$BATS_TEST_TMPDIR/exec.2"
}

@test "what is alive at exit is reported" {
    SIMCUDA_LEAKS=1 run "$B/simdriver_prog_exit"
    [[ "$output" == *"alive at exit: 1 context"* ]]
    [[ "$output" == *"alive at exit: 1 module"* ]]
    [[ "$output" == *"alive at exit: 1 allocation"* ]]
    [[ "$output" != *exec* ]]
}

@test "it exports what the toolkit's stub exports, and nothing else but its extras" {
    stub=${CUDA_STUB:-/usr/local/cuda/lib64/stubs/libcuda.so}
    [ -e "$stub" ] || skip "no stub library"
    nm -D --defined-only "$B/libcuda.so.1" | awk '{print $3}' | sort >"$BATS_TEST_TMPDIR/ours"
    nm -D --defined-only "$stub" | awk '$2 == "T" {print $3}' | sort >"$BATS_TEST_TMPDIR/theirs"
    sed -n 's/^SIM_SYMBOL(\([^,]*\),.*/\1/p' "$BATS_TEST_DIRNAME/newer.def" >"$BATS_TEST_TMPDIR/newer"
    diff <(grep -v '^cuSim' "$BATS_TEST_TMPDIR/ours" | grep -vxFf "$BATS_TEST_TMPDIR/newer") \
        "$BATS_TEST_TMPDIR/theirs"
}

@test "the symbol list is what its generator writes" {
    command -v python3 || skip "no python3"
    stub=${CUDA_STUB:-/usr/local/cuda/lib64/stubs/libcuda.so}
    [ -e "$stub" ] || skip "no stub library"
    here=$BATS_TEST_DIRNAME
    python3 "$here/gen_symbols.py" "$(dirname "$stub")/../../include" "$stub" |
        diff - "$here/symbols.def"
}

@test "an export table nobody knows can be simulated" {
    SIMCUDA_TABLES=01d5fb6c-5bf4-e74a-8987-d93912fd9df9 "$B/simdriver_test_basic"
}

@test "null mode drops launches and costs little" {
    SIMCUDA_MODE=null run "$B/simdriver_prog_cost"
    [ "$status" -eq 0 ]
}

@test "at a pace, launches and kernels take time" {
    SIMCUDA_MODE=null SIMCUDA_PACE=5000:0:0:20000 run "$B/simdriver_prog_cost"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(sed 's/submit \([0-9]*\) .*/\1/' <<<"$output")" -ge 5000 ]
    [ "$(sed 's/.*sync \([0-9]*\) .*/\1/' <<<"$output")" -ge 20000 ]
    SIMCUDA_PACE=5000:0:0:20000 run "$B/simdriver_prog_cost"
    grep 'not four numbers, or not for this mode' <<<"$output"
}

@test "async and inline modes compute the same" {
    SIMCUDA_MODE=async run "$B/simdriver_prog_cost"
    [ "$status" -eq 0 ]
    SIMCUDA_MODE=inline run "$B/simdriver_prog_cost"
    [ "$status" -eq 0 ]
}
