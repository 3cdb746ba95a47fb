#!/usr/bin/env bats
# Streams that fork and join: what happens in the middle of that.

load common.bash
setup() {
    common_setup
    forks=$AG_BUILD/tests/command/command_branches
    export AUTOGRAPH_TEST_JOIN=1 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline SIMCUDA_GRAPHS=last
}

# forks CASE...: as without the library; streams went into one graph, and most ops were replayed.
forks() {
    same "$forks" "$@"
    cat with.out summary
    at_least "replayed per cent" "$(replayed_share)" 50
    at_least "branches" "$(figure 'went into the graphs of that')" 1
}

# both CASE...: the same, whoever launches the graphs. ThreadSanitizer takes long, and meets fewer threads inline.
both() {
    [[ ${AG_RUNTIME-} == *tsan* ]] || AUTOGRAPH_SUBMIT=inline forks "$@"
    AUTOGRAPH_SUBMIT=thread forks "$@"
}

@test "what is held back is counted while another thread submits" { both paced; }
# Streams without a fork do not count these as ops.
@test "records and waits do not count where the library compares itself with eager launches" { as_fast_as_eager "$forks" busy; }
@test "a copy into a branch comes before its next op, though another stream has waited for the branch" {
    needs_own_kernels # fences: the device's memory adjoins the host's here
    both copy-behind-wait
}
@test "a call that nobody knows comes behind what a branch has in graphs" { SIMCUDA_VERSION=13030 both unknown-call; }
@test "a record for a whole context makes no other event be forgotten" { both context-event; }
@test "a record that fails leaves the event's last record as it was" { both failed-record; }
@test "two forks record one event in turns" { both shared-event; }
@test "the record of an event of another context is refused at once" { both event-of-other-context; }
@test "an event that was destroyed is no event any more" {
    both destroyed-twice 0
    SIMCUDA_HANDLES=reuse both destroyed-twice 0
    # The library's thread is about to destroy it.
    for us in 50 100; do SIMCUDA_HANDLES=reuse SIMCUDA_SLOW_US=300 both destroyed-twice $us; done
}
@test "who has waited for all finds streams and events ready" { both ready-at-once; }
@test "an event that a launch records is no longer that of a fork" { both launch-event; }
@test "what a stream did before it was a branch no longer is waited for" { both leaving-branch; }
@test "one stream of a fork waits for the program, and the program for the other" {
    for how in {0..9}; do forks gate $how; done
}
@test "a launch behind a wait for an event overlaps nothing" {
    SIMCUDA_LOG=$PWD/log.%p both overlap
    none grep -h ' cuGraphAddDependencies_v2 ' log.*
}
@test "who looks for an event does not wait for a thread that waits for room in a queue" {
    for how in 0 1 2 3; do SIMCUDA_QUEUE=64 both full-queue $how; done
}
@test "what begins to wait does not wait for another thread that waits for room in a queue" {
    needs_own_kernels # fences: its word is in memory of the host
    local how outwaited=0
    for how in 4 5 6 7; do
        AG_TIMEOUT=30 SIMCUDA_QUEUE=64 both full-queue $how
        [ "$(figure "ends with its thread's next call")" -ge 1 ]
        AG_TIMEOUT=30 AUTOGRAPH_TEST_CHUNK=5 AUTOGRAPH_SUBMIT=inline SIMCUDA_QUEUE=32 same "$forks" full-queue-of-thread $how
        outwaited=$((outwaited + $(figure 'did not come back from the driver (0.1 s each)')))
    done
    at_least "times that the other thread was not waited for any longer" $outwaited 1 # 3, if it is in the driver by then
}
@test "the legacy stream waits for the program, and the program for an event of a fork" {
    for how in 0 1; do both legacy-gate $how; done
}
@test "a branch waits for the program, and the program for a record of its origin" { both record-alone; }
@test "the legacy stream waits for the program, and the program for a blocking branch" {
    for how in 0 1 2; do both own-event $how; done
}
@test "work that a branch is not ordered with waits for the program, and the program for the branch" {
    for how in inline thread; do
        for case in 0 1 2 3 4; do AUTOGRAPH_SUBMIT=$how same "$forks" legacy-order $case; done
    done
}
@test "an event is ready, and waited for behind work that waits for the program" {
    for how in 0 1; do both passed-event $how; done
}
@test "an event of the step before is waited for, and ends what the step under way waits for" { both late-asks; }
# What it compares takes it some time to find out.
@test "a branch does not rest by itself" {
    for how in auto inline; do AUTOGRAPH_TEST_PROFIT=2 AUTOGRAPH_SUBMIT=$how same "$forks" unloads; done
}
@test "a launch of another thread is on its way into a branch" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how same "$forks" late-call 0; done
}
not_under_tsan() {
    [ -z "${AG_RUNTIME-}" ] || skip "ThreadSanitizer objects to the program, which writes to what is being copied"
}
# late_call CASE BRANCHES TIMES: so often that it happens; streams became branches so often each time.
late_call() {
    for i in $(seq "$3"); do
        same "$forks" late-call "$1"
        cat summary
        at_least "branches" "$(figure 'went into the graphs of that')" "$2"
    done
}
@test "a copy of another thread is on its way into a branch" {
    not_under_tsan
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how late_call 1 10 1; done
}
@test "a copy of another thread that was not seen is on its way into a branch" {
    not_under_tsan
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how late_call 3 1 5; done
}
@test "a launch of another thread that passed unseen is on its way into a branch" {
    AUTOGRAPH_SUBMIT=inline late_call 2 1 3
    at_least "launches not looked at" "$(figure 'not looked at')" 1000
}
@test "a thread goes on with the branch when another has taken the origin over" {
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how AUTOGRAPH_TEST_CHUNK=5 same "$forks" split-fork
        cat summary
        at_least "branches" "$(figure 'went into the graphs of that')" 1
    done
}
# A busy machine changes the pace, and with it the length of graphs where nobody says it.
@test "more branches and events than a fork has room for, and waits for events of long ago" { AUTOGRAPH_TEST_CHUNK=16 both many; }
@test "streams, events and contexts end in the middle of a step" { both ends; }
# How often a thread takes over decides what is replayed.
@test "threads launch to the streams of a fork in turns" {
    AUTOGRAPH_SUBMIT=inline same "$forks" threads
    AUTOGRAPH_SUBMIT=thread same "$forks" threads
}

# Debug builds assert the counts.
@test "forks end where streams were measured to be faster without graphs" {
    for how in 1 2; do
        AUTOGRAPH_TEST_PROFIT=$how AUTOGRAPH_TEST_JOIN=2 AUTOGRAPH_SUBMIT=auto same "$forks" weighed
        AUTOGRAPH_TEST_PROFIT=$how AUTOGRAPH_TEST_JOIN=2 AUTOGRAPH_SUBMIT=inline same "$forks" weighed
    done
}

# quiet CASE: as without the library; records are in graphs, which hold several kernels each.
quiet() {
    # how long graphs are where nobody says so depends on the host's pace, and so does when the watchdog cuts them
    AUTOGRAPH_TEST_CHUNK=6 AUTOGRAPH_MAX_DEFER_US=200000 same "$forks" "$1"
    cat with.out summary
    at_least "replayed per cent" "$(replayed_share)" 80
    at_least "quiet streams" "$(figure 'which nobody asked for, went into its graphs')" 1
    at_least "a tenth of the ops in a graph" "$(sed -n 's/.*replayed \([0-9]*\) of .* in \([0-9]*\) graph launches.*/\1 \2/p' summary | awk '{print int($1 * 10 / $2)}')" 30
}
@test "records of events that nobody asks for are in graphs" {
    AUTOGRAPH_SUBMIT=inline quiet quiet
    AUTOGRAPH_SUBMIT=thread quiet quiet
}
@test "an event that was recorded in a capture before is ready" {
    AUTOGRAPH_SUBMIT=inline quiet quiet-captured
    AUTOGRAPH_SUBMIT=thread quiet quiet-captured
}
@test "the host waits for an event, and then ends what a kernel behind it waits for" {
    for how in inline thread; do
        for case in 0 1; do AUTOGRAPH_SUBMIT=$how same "$forks" quiet-gate $case; done
    done
}
# few CASE: as without the library; its stream becomes quiet, and at most three times.
few() {
    for how in inline thread; do
        AUTOGRAPH_TEST_JOIN=16 AUTOGRAPH_SUBMIT=$how same "$forks" "$1"
        cat summary
        times=$(figure 'which nobody asked for, went into its graphs')
        at_least "times that a stream became quiet" "$times" 1
        at_least "most such times" 3 "$times"
    done
}
@test "a loop of queries asks for an event once, and its stream stays quiet" { few quiet-queries; }
@test "a stream that something else takes out of its quiet mode begins anew" { few quiet-host; }
@test "events of one stream are asked for now and then" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how same "$forks" quiet-asks; done
}
@test "a kernel in a stream that is dormant waits for the program, and the program for an event" {
    for how in 0 1; do
        AUTOGRAPH_SUBMIT=inline same "$forks" quiet-dormant $how
        cat summary
        at_least "launches not looked at" "$(figure 'not looked at')" 100
        at_least "quiet streams" "$(figure 'which nobody asked for, went into its graphs')" 1
    done
}
@test "the legacy stream, where nothing was launched, waits for the program, and the program for an event" {
    for how in inline thread; do
        for case in 0 1; do
            AUTOGRAPH_SUBMIT=$how same "$forks" quiet-unknown $case
            cat summary
            at_least "quiet streams" "$(figure 'which nobody asked for, went into its graphs')" 1
        done
    done
}
# Built for TSan it finds a look at what another thread frees.
@test "streams end whose events nobody asked for, while another thread launches to the legacy stream" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how same "$forks" quiet-ends; done
}
