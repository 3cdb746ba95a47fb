#!/usr/bin/env bats
# Chunks that a thread of the library launches (AUTOGRAPH_SUBMIT): what the program sees is the same, and that thread
# did something. AUTOGRAPH_SUBMIT=thread hands every chunk over that there is room for, whatever the clock says.

load common.bash
setup() {
    common_setup
    # the watchdog is not to break chunks on a busy machine
    export AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000
}

handed() {
    figure "graph launches left to the library's own thread"
}

# hands LEAST COMMAND...: the same output in each try, and in one of five at least so many chunks were handed over:
# whoever else runs on the machine makes it fewer, never more.
hands() {
    local least=$1 try
    shift
    for try in {1..5}; do
        same "$@"
        cat with.out summary
        if [ "$(handed)" -ge "$least" ]; then return 0; fi
    done
    at_least "launches by the library's thread" "$(handed)" "$least"
}

# ---- order

@test "steps with a sync each, and with a sync now and then" {
    hands 50 "$cases" repeat 100
    hands 20 "$submit" ahead 300
    AUTOGRAPH_TEST_BUILD=thread hands 1 "$submit" ahead 2000
    hands 50 "$heat"
}

@test "sequences of many kinds" {
    hands 10 "$cases" phases 4
    hands 10 "$cases" turns 100
    hands 10 "$cases" table 100
    hands 1 "$cases" slow-host 10
}

@test "another stream's steps are handed over as well, and the thread's time is told" {
    local try
    for try in {1..5}; do # on a busy machine others may make its launches
        AUTOGRAPH_TEST_CHUNK=20 hands 150 "$submit" in-turn 200
        if grep -Eq 'own thread .* took [0-9.]*[1-9][0-9.]* ms of processor time' summary; then return 0; fi
    done
    return 1
}

@test "more streams than the submitter looks after" { AUTOGRAPH_TEST_CHUNK=20 hands 100 "$submit" many 10; }

@test "single launches that were handed over have been done when another thread has waited" {
    SIMCUDA_LATE=autograph-send:300 same "$submit" seen-by-other 300
    at_least "single launches handed over" "$(singly)" 200
}

@test "chunks that the ring has no room for are launched by the program, and their graphs are given back" {
    AUTOGRAPH_TEST_CHUNK=40 same "$submit" too-long 30
    cat with.out summary
    at_least "replayed ops" "$(figure replayed)" 500
    at_least "graphs dropped" "$(figure 'graphs dropped')" 1
}

# ordered CASE: 10 chunks at least. The program's results are in memory of the host, so its graphs have fences.
ordered() {
    needs_own_kernels
    hands 10 "$order" "$1"
}

@test "two streams tied by events" { ordered events; }
@test "host functions see what came before them" { same "$order" callback; }
@test "what is said to be done is done" { ordered query; }
@test "copies between launches" { ordered copies; }
@test "threads with a stream each" { ordered threads; }
@test "the legacy stream between blocking streams" {
    ordered legacy
    # a stream that has only handed chunks over meets no sync point there, as it would not without the submitter
    [ "$(figure 'flushes for the order of streams')" -lt 100 ]
    hands 10 "$cases" legacy 30
}

@test "a query of another thread is answered by what the submitter has done" {
    AUTOGRAPH_MAX_DEFER_US=20000 hands 10 "$states" query-of-other 20
}

@test "spans without replaying let no launch overtake what was handed over" {
    local runs=6 run # a span has to begin with the last op of a chunk that is to be built
    [ -z "${AG_RUNTIME-}" ] || runs=1 # a sanitizer makes each of them long
    for ((run = 0; run < runs; run++)); do
        SIMCUDA_LATE=autograph-send:300 AUTOGRAPH_COMPARE_MS=1 hands 10 "$submit" ahead 5000
    done
}

@test "captures, dead contexts and work that waits begin with nothing in a ring" {
    AUTOGRAPH_MAX_DEFER_US=1000000 hands 10 "$states" held-at-capture 90
    hands 1 "$cases" host-function 100
    hands 1 "$cases" collective 100
    under "$states" sticky 0 >with.out
    grep -qx '700: eager, eager, replayed' with.out
    grep -qx '1: replayed, replayed, replayed' with.out
}

# ---- errors

@test "a graph that the driver refuses goes as launches, and nobody hears of it" {
    hands 20 "$submit" graphs-refused 20
    at_least "graph launches failed" "$(figure 'graph launches failed')" 1
    SIMCUDA_FAIL="cuGraphLaunch:*=2" hands 1 "$submit" ahead 300
    [ "$(figure replayed)" -eq 0 ]
    SIMCUDA_FAIL=cuGraphLaunch:3=2 hands 10 "$cases" repeat 100
    at_least "flushed" "$(figure flushed)" 1
    SIMCUDA_FAIL=cuGraphExecKernelNodeSetParams_v2:7=1 hands 10 "$loop" --changing --steps=50 --reps=1
    at_least "updates failed" "$(figure 'node updates failed')" 1
}

@test "a refused launch is told once" {
    export AUTOGRAPH_MAX_DEFER_US=1000000
    for how in alloc alloc-async copy event; do
        hands 10 "$states" untold-$how 0
        grep -q '^told 1 time' with.out
    done
    hands 10 "$submit" told-by-launch 1000
}

@test "a refused launch that was handed over is told by the next launches, although nothing waits any more" {
    same "$submit" told-alone 5
    cat with.out
    at_least "single launches handed over" "$(singly)" 5
}

# ---- full queues

@test "a submitter that waits for room in a queue keeps nobody else waiting" {
    export SIMCUDA_QUEUE=64
    for call in 0 1 2 3 4; do
        # one chunk a step: the program's thread goes on, and the other one waits
        AUTOGRAPH_TEST_CHUNK=20 hands 10 "$submit" stuck $call
        hands 10 "$submit" stuck $call
    done
    # The process ends, and its summary may lack the figures of that stream. ThreadSanitizer calls the thread in the call a leak.
    [ -n "${AG_RUNTIME-}" ] || AUTOGRAPH_TEST_CHUNK=20 same "$submit" stuck 5
    [ -n "${AG_RUNTIME-}" ] || same "$submit" stuck 5
    for run in {1..5}; do # on a busy machine the program's thread may be the one that waits
        AUTOGRAPH_TEST_CHUNK=20 hands 10 "$submit" stuck 1
    done
}

@test "a query does not wait for room behind a host function that needs the program's lock" {
    for mode in inline thread; do
        SIMCUDA_QUEUE=64 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode same "$submit" query-with-lock 3
        cat summary
        at_least "replayed ops" "$(figure replayed)" 500
    done
}

@test "graphs are built and dropped beside a submitter that waits for room in a queue" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    SIMCUDA_QUEUE=64 AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_MEMORY_MB=1 AUTOGRAPH_TEST_CHUNK=20 hands 10 "$submit" stuck 6
    at_least "graphs dropped" "$(figure 'graphs dropped')" 20
}

@test "full queue: another thread's calls pass" {
    export SIMCUDA_QUEUE=32
    for call in {0..15}; do
        hands 1 "$states" full "$call"
    done
}

@test "all signatures are forgotten later if that would wait for the submitter" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    local times='times that all sequences were invalidated (limits, unknown calls, too many signatures)'
    for _ in 1 2 3 4 5; do # a stream that rests early, on a busy machine, shows too few signatures
        SIMCUDA_QUEUE=64 AUTOGRAPH_MEMORY_MB=1 AUTOGRAPH_TEST_CHUNK=20 hands 10 "$submit" stuck 7
        [ "$(figure "$times")" -eq 0 ] || break
    done
    at_least "times" "$(figure "$times")" 1
}

# ---- a GPU that does not get on

# The policy counts these: they say that it was told how long they took. What it makes of that: policy.far.
far_behind="launches that waited for the GPU, which was far behind"

@test "a program that never waits gets no further ahead of the GPU than the credit" {
    for mode in inline thread; do
        SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode same "$submit" behind 50
        cat with.out summary
        at_least "waits" "$(figure "$far_behind")" 1
    done
}

@test "a program each of whose steps is handed over waits for a GPU that is far behind" {
    AUTOGRAPH_TEST_CHUNK=20 hands 20 "$submit" behind-steps 80
    at_least "waits" "$(figure "$far_behind")" 1
}

# A busy machine may take longer for the calls than the other thread has patience.
@test "a thread that waits for its GPU keeps no call of another thread waiting in the legacy stream" {
    for mode in inline thread; do
        for try in {1..5}; do
            SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode same "$submit" beside 100
            cat with.out
            at_least "waits" "$(figure "$far_behind")" 1
            if grep -qx 'MEASURED 0 others waited' with.out; then break; fi
        done
        grep -qx 'MEASURED 0 others waited' with.out
    done
}

# At most 180 ops.
@test "graphs of 64 ops have an event behind every second one" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer makes it long, and it is about calls alone"
    local most
    AUTOGRAPH_TEST_PROFIT=0 SIMCUDA_LOG=$PWD/calls SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=64 AUTOGRAPH_SUBMIT=inline same "$submit" gpu-of-64 20000
    cat with.out
    grep -qx 'MEASURED 6[34] ops a graph' with.out
    most=$(awk '$4 == "cuEventRecord" { if (records++ > 20 && graphs > most) most = graphs; graphs = 0 }
        $4 == "cuGraphLaunch" { graphs++ }
        END { print (records > 50 ? most : "too few records") }' calls)
    echo "graphs between two events: $most"
    [ "$most" = 2 ]
}

@test "events that cannot be made or recorded are counted, and made later" {
    local failed="events that could not be made or recorded, without which graphs may get too far ahead of the GPU"
    export AUTOGRAPH_TEST_PROFIT=0
    for call in cuEventCreate cuEventRecord; do
        SIMCUDA_FAIL="$call:1-2=2" SIMCUDA_QUEUE=1021 AUTOGRAPH_SUBMIT=inline same "$submit" slower-gpu 3000
        cat summary
        [ "$(figure "$failed")" -eq 2 ]
        at_least "waits" "$(figure "$far_behind")" 1
        SIMCUDA_FAIL="$call:*=2" AUTOGRAPH_SUBMIT=inline same "$submit" slower-gpu 3000
        at_least "failures" "$(figure "$failed")" 3
    done
}

@test "a program that lets the GPU go on behind as many launches as its queue holds does not wait" {
    for mode in inline thread; do
        for n in 700 1000; do
            SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode same "$submit" gate $n
            cat summary
            [ "$(figure "$far_behind")" -eq 0 ]
            at_least "replayed ops" "$(figure replayed)" 10000
        done
    done
}

# A second for the event that is waited for, not for each of 200 graphs behind it.
@test "a program that lets the GPU go on behind more launches than that ends" {
    AG_TIMEOUT=60 AUTOGRAPH_TEST_CHUNK=4 AUTOGRAPH_SUBMIT=inline same "$submit" patience 2000
    cat summary
    at_least "waits" "$(figure "$far_behind")" 1
}

# Launches that go by themselves count while graphs are in front of them, and wait as those do.
@test "launches that go by themselves get no further ahead of the GPU behind graphs" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    for mode in inline thread; do
        for kind in new known; do
            AG_TIMEOUT=60 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_SUBMIT=$mode same "$submit" patience-$kind 900
            cat summary
            at_least "waits" "$(figure "$far_behind")" 1
        done
    done
}

# ---- a call that does not return

# in_a_call COMMAND...: the same output in each try, and in one of five the submitter was stuck in a call.
in_a_call() {
    for try in {1..5}; do
        same "$@"
        cat with.out
        if grep -qx 'MEASURED 1 stuck' with.out; then return 0; fi
    done
    return 1
}

@test "a submitter that is stuck in a call keeps nobody else waiting, and its own stream within the credit" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    hows=({0..7}) # launches of graphs and single ones, or any call; before what it does, or behind it
    [ -z "${AG_RUNTIME-}" ] || hows=(6) # a sanitizer makes each run long
    for how in "${hows[@]}"; do
        AUTOGRAPH_TEST_CHUNK=20 in_a_call "$submit" stuck-call "$how"
    done
}

@test "a host function's fill does not overtake what the submitter is stuck in" {
    in_a_call "$submit" host-function-fills 5
    at_least "single launches handed over" "$(singly)" 1
}

@test "a submitter that cannot enter the context keeps nobody waiting" { in_a_call "$submit" no-context 5; }

@test "a submitter that is stuck in any of its first calls changes nothing, and keeps nobody else waiting" {
    local calls=40 stuck try
    [ -z "${AG_RUNTIME-}" ] || calls=12 # a sanitizer makes each of them long
    for build in inline thread; do
        for try in {1..5}; do # on a busy machine the program's thread may make its launches itself
            AUTOGRAPH_TEST_BUILD=$build AUTOGRAPH_TEST_CHUNK=20 same "$submit" stuck-nth $calls
            cat with.out
            stuck=$(sed -n 's/^MEASURED \([0-9]*\) times stuck/\1/p' with.out)
            [ "$stuck" -lt $calls ] || break
        done
        at_least "times of $((2 * calls)) that it was stuck" "$stuck" $calls
    done
}

@test "a submitter that is stuck in its first call for good keeps nobody waiting but for its stream, and the process ends" {
    [ -z "${AG_RUNTIME-}" ] || skip "the program ends with a thread in a call, which ThreadSanitizer calls a leak"
    in_a_call "$submit" stuck-always 100
    AUTOGRAPH_TEST_CHUNK=20 in_a_call "$submit" stuck-always 100
    at_least "chunks of other streams that were not left to it" 50 "$(handed)"
}

@test "the process ends although the submitter is stuck in a call" {
    [ -z "${AG_RUNTIME-}" ] || skip "the program ends with a thread in a call, which ThreadSanitizer calls a leak"
    for how in 0 1; do
        AUTOGRAPH_TEST_CHUNK=20 in_a_call "$submit" stuck-exit "$how"
    done
}

# ---- ends

@test "the process ends, and nothing waits, where another library has stopped the clock" {
    local stopped=$AG_BUILD/tests/command/command_stopped.so try
    for try in {1..5}; do
        AG_TIMEOUT=20 preload=$stopped:$preload same "$cases" repeat 100
        AG_TIMEOUT=20 preload=$preload:$stopped same "$cases" turns 100
    done
}

@test "exit handlers find what was handed over" {
    for run in {1..5}; do
        SIMCUDA_SLOW_US=20 hands 10 "$submit" exit-handler 100
    done
}

@test "exit handlers find what a thread had launched that waits for its GPU" {
    for run in {1..5}; do
        for mode in inline thread; do
            SIMCUDA_QUEUE=1021 AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_MAX_DEFER_US=20000 AUTOGRAPH_SUBMIT=$mode \
                same "$submit" exit-far 100
        done
    done
}

@test "a launch that is in the driver while the process ends is made behind that" {
    for kind in 0 1; do
        for try in {1..5}; do
            AUTOGRAPH_TEST_CHUNK=20 same "$submit" exit-asked $kind
            cat with.out
            if grep -qx 'MEASURED 1 asked' with.out; then break; fi
        done
        grep -qx 'MEASURED 1 asked' with.out
    done
}

@test "exit() in a handler for a fault in the submitter" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer has its own handler, and objects to the program"
    SIMCUDA_MODE=inline AUTOGRAPH_MAX_DEFER_US=1000000 same "$submit" exit-at-fault 50
    [ ! -e summary ] # the submitter was interrupted, and not the program's thread
}

@test "a thread that goes on while the process ends sees its own order" {
    export SIMCUDA_MODE=inline AUTOGRAPH_MAX_DEFER_US=1000000
    for run in {1..10}; do
        [ "$(under "$states" exit 0)" = "worker: right" ]
        [ "$(under "$submit" exit-beside 60)" = "worker: right" ]
    done
}

@test "threads that are cancelled leave no lock behind" {
    SIMCUDA_SLOW_US=1 hands 10 "$states" cancel 100
}

@test "exit() in a signal handler" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer objects to the program: its handler allocates"
    same "$states" exit-in-handler-between 50
    same "$states" exit-in-handler-locked 50
}

@test "children of fork are made with launches under way" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime does not bear a fork beside threads"
    hands 10 "$submit" forks 10
    same "$cases" prefork 50
}

@test "streams and contexts end beside threads that launch" {
    hands 10 "$submit" destroys 50
    AUTOGRAPH_TEST_BUILD=thread hands 1 "$submit" destroys 50
    AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_MEMORY_MB=1 hands 1 "$submit" destroys 50
    hands 10 "$life" contexts 100
    hands 10 "$life" resets 100
    hands 10 "$life" green-contexts 100
}

# ---- who launches

@test "who launches changes at any chunk" {
    needs_own_kernels # fences: the program's results are in memory of the host
    export AUTOGRAPH_SUBMIT=auto AUTOGRAPH_TEST_SWITCH=1
    hands 10 "$cases" repeat 100
    local launches
    launches=$(grep -o 'in [0-9]* graph launches' summary | grep -o '[0-9]*')
    at_least "graph launches, three quarters of them" $((3 * launches)) $((4 * $(handed))) # it is half of them
    hands 1 "$submit" ahead 300
    for case in events query copies threads legacy; do
        hands 1 "$order" $case
    done
}

@test "who launches first, and for how long, is as asked for" {
    needs_own_kernels
    export AUTOGRAPH_TEST_SWITCH=1000000
    AUTOGRAPH_SUBMIT=inline same "$cases" repeat 100
    [ "$(handed)" -eq 0 ]
    AUTOGRAPH_SUBMIT=auto hands 50 "$cases" repeat 100
}

@test "AUTOGRAPH_SUBMIT=inline hands nothing over, and starts no thread" {
    AUTOGRAPH_SUBMIT=inline same "$cases" slow-host 10
    cat summary
    at_least "replayed ops" "$(figure replayed)" 100
    [ "$(handed)" -eq 0 ]
}

@test "a submitter that sleeps is woken by what is handed over" {
    for try in {1..5}; do # on a busy machine the watchdog may come first
        AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=1000000 hands 10 "$submit" rests 60
        [ "$(figure "graph launches by the library's own thread")" -lt 20 ] || break
    done
    at_least "graph launches by the library's own thread" "$(figure "graph launches by the library's own thread")" 20
}

@test "the thread has a name" {
    AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_PROFIT=0 under "$cases" threads 3000 >with.out
    cat with.out
    grep -q '^autograph-send' with.out
}

@test "a build waits for launches of other streams that were handed over before it" {
    SIMCUDA_WAITS=1 hands 1 "$submit" build-behind 60
}

# ---- streams that are tied by events

# On the slow driver each event and each graph launch takes long, so the program lasts until the comparison.
# tests/unit/test_weigh.c has what comes of the comparison: here the machine's other work has a say in that.
weighs() {
    for steps in 4000 8000 16000; do
        SIMCUDA_SLOW_US=50 AUTOGRAPH_TEST_PROFIT=2 AUTOGRAPH_SUBMIT=inline same "$submit" tied $steps
        [ "$(figure 'or because that was faster')" -eq 0 ] || break
    done
    at_least "ops submitted eagerly" "$(figure 'or because that was faster')" 1
}

@test "streams that are tied by events go eager now and then, to be compared" {
    export AUTOGRAPH_SUBMIT=inline
    weighs
    SIMCUDA_SLOW_US=50 same "$submit" tied 4000 # AUTOGRAPH_TEST_PROFIT=0
    [ "$(figure 'or because that was faster')" -eq 0 ]
}

# In half of the spans the library does what it always does, which includes this comparison and what comes of it.
@test "a comparison with eager lets the streams that are tied by events be compared, too" {
    AUTOGRAPH_COMPARE_MS=20 weighs
}

# 2 launches and a sync that repeat, then up to 69 of which a third is new each time. tests/unit/test_weigh.c has the rest.
@test "a stream that gains little goes eager now and then, to be compared" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    export SIMCUDA_MODE=null SIMCUDA_PACE=2500:2000:450:1000 AUTOGRAPH_SUBMIT=inline AUTOGRAPH_STATS=2
    export AUTOGRAPH_LOG_FILE=$PWD/summary AUTOGRAPH_TEST_PROFIT=1
    for ms in 1000 3000 9000; do
        rm -f summary
        under "$AG_BUILD/tests/bench/bench_paced" 0 $ms 65
        cat summary
        [ "$(figure 'or because that was faster')" -eq 0 ] || break
    done
    at_least "ops submitted eagerly" "$(figure 'or because that was faster')" 1
}

@test "a dump has how many chunks and single launches were handed over, also without a summary" {
    AUTOGRAPH_TRACE=$PWD/dump AUTOGRAPH_STATS=0 under "$submit" ahead 600
    tr '\0' '\n' <dump | grep -a '^HANDED' >counters
    cat counters
    at_least "chunks" "$(sed -n 's/^HANDED=//p' counters)" 1
    at_least "single launches" "$(sed -n 's/^HANDED_SINGLY=//p' counters)" 1
}

# ---- launches that are in no graph

singly() {
    figure "single launches left to the library's own thread"
}

@test "launches that never repeat are handed over; what was never launched is the program's to launch" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    for try in {1..5}; do # others on the machine may keep the thread from its processor
        AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary.$try under "$submit" singles 3000 >with.out
        mv "summary.$try" summary
        cat with.out summary
        grep -qx 'value right' with.out
        [ "$(grep -c 'told 1 time' with.out)" -eq 4 ]
        grep -qx 'another block: told 1 time, by the launch' with.out
        grep -qx 'another attribute: told 1 time, by the launch' with.out
        [ "$(grep -cx 'no memory: 2' with.out)" -eq 2 ]
        [ "$(singly)" -lt 2500 ] || break
    done
    at_least "single launches handed over" "$(singly)" 2500
    grep -qx 'known: told 1 time, later' with.out
    grep -qx 'another grid: told 1 time, later' with.out
    # the line that is said by default names them
    under "$submit" singles 3000 2>with.err >with.out
    grep -Eq 'replayed 0 of 300[0-9] launches and handed [0-9]+ others to a thread of its own: ' with.err
    AUTOGRAPH_SUBMIT=inline AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary.inline under "$submit" singles 300 >with.out
    [ "$(grep -c 'told 1 time, by the launch' with.out)" -eq 4 ]
    [ "$(grep -c 'single launches' summary.inline)" -eq 0 ]
    AUTOGRAPH=observe same "$submit" singles 300
    [ "$(singly)" -eq 0 ]
}

@test "what is held back at a departure from a sequence goes through the ring as well" {
    hands 10 "$cases" legacy 30
    at_least departures "$(figure mismatches)" 1
    at_least flushed "$(figure flushed)" 1
}

@test "by default, single launches are handed over where the host is slow, once that is compared" {
    [ "$(nproc)" -gt 1 ] || skip "nothing is handed over on one processor"
    export AUTOGRAPH_SUBMIT=auto
    for try in {1..10}; do
        same "$submit" slow-singles 2000 # ends before half a second
        [ "$(singly)" -ne 0 ] || break
    done
    # a busy machine makes it longer
    [ "$(singly)" -eq 0 ] || at_least "ms" "$(sed -n 's/^MEASURED \([0-9]*\) ms/\1/p' with.out)" 250
    # the comparison hands some over; whoever else runs on the machine decides how many, and which way is faster
    same "$submit" slow-singles 50000
    at_least "single launches handed over" "$(singly)" 1
}

@test "while the program measures, no single launches are handed over" {
    for try in {1..10}; do
        same "$submit" slow-singles 2001
        # it counts as measuring for half a second, which on a busy machine ends before the launches do
        [ "$(singly)" -lt 250 ] || [ "$(singly)" -gt 1000 ] || break
    done
    at_least "single launches handed over" "$(singly)" 250
    at_least "most of them" 1000 "$(singly)"
}

@test "while the program measures, the submitter is not compared" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer makes it long, and it is about time alone"
    local trials="times that launching by the library's own thread was compared with the program's"
    for try in {1..5}; do # between two times that it asks for, half a second may pass on a busy machine
        AUTOGRAPH_SUBMIT=auto same "$submit" measured-singles 60000
        if [ "$(figure "$trials")" -eq 0 ]; then return 0; fi
    done
    return 1
}

@test "single launches for which the submitter would sleep are not handed over" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer makes it long, and it is about time alone"
    AUTOGRAPH_SUBMIT=auto same "$submit" slower-singles 10000
    [ "$(singly)" -eq 0 ]
}

@test "where no thread can be started, the program does not try at every chunk" {
    under "$states" refused-threads 1 >with.out # the first is the watchdog's
    cat with.out
    grep -qx 'value right' with.out
    [ "$(sed -n 's/^threads asked for: //p' with.out)" -le 5 ]
}

@test "on one processor, nothing is handed over" {
    one=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
    AUTOGRAPH_SUBMIT=auto same taskset -c "$one" "$cases" slow-host 200
    cat summary
    at_least "replayed ops" "$(figure replayed)" 1000
    [ "$(handed)" -eq 0 ]
    if [ -z "${AG_RUNTIME-}" ]; then # a sanitizer makes it long
        AUTOGRAPH_SUBMIT=auto same taskset -c "$one" "$submit" slow-singles 60000 # long enough for a comparison
        [ "$(singly)" -eq 0 ]
    fi
    # who asks for the thread gets it, and its results
    hands 1 taskset -c "$one" "$cases" slow-host 10
    hands 1 taskset -c "$one" "$submit" ahead 300
}
