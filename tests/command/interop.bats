#!/usr/bin/env bats
# Programs that share memory and order with another process or another API: what the other side has seen, and all
# that the driver has executed, are the same as without the library, and what lies between goes by graphs.

load common.bash
setup() {
    common_setup
    # A launch that is held back too long is not to be saved by the clock.
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000
    export SIMCUDA_LOG=$PWD/log.%p
    steps=100
}

# What the driver of one process executed, in order: of the one stream that the program has besides the legacy stream
# (1), which nothing orders with it.
executed() {
    sed -n '/^[0-9]* exec 1 /d; s/^[0-9]* exec [0-9]* //p' "$1"
}

# shared_calls LOG: the calls by which the program shares, with their results.
shared_calls() {
    sed -n 's/^[0-9]* call [0-9]* \(cu[A-Za-z]*\(Ipc\|External\|Graphics\)[A-Za-z_0-9]* [0-9]*\)$/\1/p' "$1"
}

# same_work CALL: of the processes that make this call, the one with the library and the one without.
same_work() {
    local logs eager with
    logs=$(grep -l " call [0-9]* $1 0" log.*)
    # shellcheck disable=SC2086 # names of files
    eager=$(grep -L ' call [0-9]* cuGraphLaunch ' $logs) with=$(grep -l ' call [0-9]* cuGraphLaunch ' $logs)
    echo "$1: $eager, with the library $with"
    [ "$(wc -w <<<"$eager $with")" -eq 2 ]
    at_least "executed" "$(executed "$eager" | wc -l)" 2000
    at_least "shared calls" "$(shared_calls "$eager" | wc -l)" 1
    diff <(executed "$eager") <(executed "$with")
    diff <(shared_calls "$eager") <(shared_calls "$with")
}

# shares PER-CENT CASE CALL...: results, what was executed (in each process that makes one of these calls), and the
# share of ops by graphs in each process.
shares() {
    local call share
    same "$interop" "$2" "$steps"
    cat with.out summary
    none grep -q misuse with.err
    for call in "${@:3}"; do same_work "$call"; done
    [ "$(replayed_share | wc -l)" -eq $(($# - 2)) ]
    for share in $(replayed_share); do at_least "replayed per cent" "$share" "$1"; done
}

# sync_points CALL COUNT: as often as the program makes the call with launches before it, in all its processes.
sync_points() {
    local count
    count=$(awk -v call="$1" '{ for (i = 1; i + 1 < NF; i++) if ($i == "point" && $(i + 1) == call) sum += $(i + 2) }
        END { print sum + 0 }' summary)
    echo "sync point $1: $count, $2 is right"
    [ "$count" -eq "$2" ]
}

# Nothing is built while the stream waits for the other API, so how the two keep pace decides what is replayed: a
# quarter to nine tenths.
@test "timeline semaphores of another API, and its memory" {
    shares 15 timeline cuImportExternalSemaphore
    sync_points cuSignalExternalSemaphoresAsync $steps
    sync_points cuWaitExternalSemaphoresAsync $steps
    sync_points cuDestroyExternalSemaphore 1
    sync_points cuDestroyExternalMemory 1
}

@test "binary semaphores of another API, and its memory" {
    shares 15 binary cuImportExternalSemaphore
    sync_points cuSignalExternalSemaphoresAsync $steps
    sync_points cuWaitExternalSemaphoresAsync $steps
}

@test "a buffer that a graphics API lends" {
    shares 80 graphics cuGraphicsUnregisterResource
    sync_points cuGraphicsMapResources $((steps + 1))
    sync_points cuGraphicsUnmapResources $steps
    sync_points cuGraphicsUnregisterResource 1
}

@test "two processes in turns on one piece of memory, ordered by events that both have" {
    shares 80 ipc-events cuIpcGetMemHandle cuIpcOpenMemHandle_v2
    sync_points cuEventRecord $((2 * steps))
    sync_points cuStreamWaitEvent $((2 * steps - 1))
}

@test "memory of another process is opened, worked on and closed with work on its way" {
    shares 80 ipc-handles cuIpcGetMemHandle cuIpcOpenMemHandle_v2
    sync_points cuIpcCloseMemHandle $steps
    sync_points cuIpcOpenMemHandle_v2 $steps
    sync_points cuIpcGetMemHandle $steps
}

@test "the same on a GPU's terms: two processes in turns, one reads what the other has waited for" {
    needs_own_kernels # fences: the program's results are in memory of the host
    same "$order" ipc
    cat with.out summary
    none grep -q SKIP with.out
    [ "$(replayed_share | wc -l)" -eq 2 ]
    for share in $(replayed_share); do at_least "replayed per cent" "$share" 80; done
}

@test "where there are no handles for other processes, that is said and nothing is wrong" {
    SIMCUDA_FAIL=cuIpcGetMemHandle:1=801 same "$order" ipc
    grep -q '^SKIP: .*801' with.out
    SIMCUDA_FAIL=cuIpcOpenMemHandle_v2:1=304 same "$order" ipc
    grep -q '^SKIP: .*304' with.out
}

@test "a stream that forks waits for a peer's event, and the peer for the other stream" {
    unset SIMCUDA_LOG
    export AG_TIMEOUT=20 AUTOGRAPH_TEST_JOIN=1
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how same "$interop" ipc-gate 100
        cat summary
        at_least "streams left out of graphs" "$(figure 'shares events with another process')" 1
    done
}
