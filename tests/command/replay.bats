#!/usr/bin/env bats
# Programs that repeat: the same results as without the library, and by graphs.

load common.bash
setup() {
    common_setup
    # Whether graphs pay is measured, and a CPU in place of a GPU says nothing about it.
    export AUTOGRAPH_TEST_PROFIT=0
}

# replays PER-CENT COMMAND...
replays() {
    same "${@:2}"
    cat summary
    at_least "replayed per cent" "$(replayed_share)" "$1"
}

# Graphs are built in the launch that needs them, so that the share does not hang on when a thread gets its turn.
inline_replays() {
    AUTOGRAPH_TEST_BUILD=inline replays "$@"
}

@test "a sync after every step" { inline_replays 95 "$loop" --steps=100 --reps=2; }
@test "a sync after every step, on the legacy stream" { inline_replays 95 "$loop" --steps=100 --reps=2 --stream=legacy; }
@test "a sync after every kernel" { inline_replays 95 "$loop" --sync=kernel --steps=50 --reps=2; }
@test "no sync" { inline_replays 95 "$loop" --sync=none --steps=500 --reps=2; }
# On a busy machine the program's thread may stop anywhere, and the watchdog submits there as well: it replays less then.
# Without what the library learns of the word it would replay under 30 % of the second program.
polls() {
    local try
    needs_own_kernels # a graph of two steps has a fence
    for try in 1 2 3 4 5; do
        AUTOGRAPH_TEST_BUILD=inline same "$loop" --sync=poll --steps=500 --reps=2 "$@"
        echo "replayed $(replayed_share) % in try $try"
        if [ "$(replayed_share)" -ge 60 ]; then return 0; fi
    done
    return 1
}

@test "a word in mapped memory is polled after every step" { polls; }
@test "a word in mapped memory is polled after every four kernels" { polls --kernels=4; } # far shorter than a chunk
@test "other arguments in every step" { inline_replays 95 "$loop" --changing --steps=100 --reps=2; }
@test "no sync, other arguments in every step" { inline_replays 95 "$loop" --changing --sync=none --steps=500 --reps=2; }
@test "a step of 2 kernels" { inline_replays 95 "$loop" --kernels=2 --steps=500 --reps=2; }
@test "a step of 700 kernels" { inline_replays 90 "$loop" --kernels=700 --steps=30 --reps=2; }
@test "a solver that looks at its residual every 10 steps" { inline_replays 95 "$heat" --reps=2; }

# How soon the thread gets its turn is the machine's affair.
@test "graphs built by a thread of their own" {
    [ -n "$AG_RUNTIME" ] && many=500 reps=1 || many=4000 reps=5 # a sanitizer makes them slow
    replays 10 "$loop" --steps="$many" --reps=2
    replays 10 "$loop" --sync=none --steps="$many" --reps=2
    replays 10 "$loop" --changing --sync=none --steps="$many" --reps=2
    replays 10 "$heat" --reps=$reps
}

@test "graphs are in use by the fourth repetition" {
    # In one graph: at a slow pace the first ops would go ahead eagerly.
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_CHUNK=1024
    same "$cases" repeat 3
    before=$(figure replayed)
    same "$cases" repeat 4
    cat summary
    at_least "replayed in the fourth repetition" $(($(figure replayed) - before)) 20
}

# Looking for a graph with other arguments rests where it was of no use for long: not for good.
@test "arguments in turns, after long without: in the end none is set" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" turns 1000
    cat summary
    updates=$(sed -n 's/.* \([0-9]*\) node updates$/\1/p' summary)
    at_least "updates of ever-new arguments" "$updates" 19000
    at_least "steps of 20 whose arguments in turns were set, of 1000" 300 $(((updates - 20000) / 20))
}

@test "a program that never repeats: nothing is built" {
    same "$loop" --never-repeat --steps=300 --reps=2
    cat summary
    [ "$(replayed_share)" -eq 0 ]
    [ "$(figure 'graphs built')" -eq 0 ]
}

# As where the work has another size each time. A few sizes would be learnt one by one.
@test "another grid in each step: it is set as arguments are" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    for sync in step none; do
        same "$loop" --resized --sync=$sync --steps=600 --reps=2
        cat summary
        [ "$(figure 'as they come with many')" -eq 1 ]
        at_least "share replayed" "$(replayed_share)" 70
    done
    AUTOGRAPH_TEST_GRIDS=100000 same "$loop" --resized --steps=600 --reps=2
    [ "$(replayed_share)" -lt 40 ]
}

# compared STEPS-OF COMMAND... N: some spans are eager and some are not, results are the same, and the summary tells the
# gain. A span has its length in time; how many ops and pairs come of it is the machine's affair. So the command runs
# with its option STEPS-OF (--steps, --reps) ever higher until there are enough, which a library that does not take
# turns never reaches. Spans get longer as well, but half as fast: one may hold too few ops to be measured.
compared() {
    local option=$1 command=("${@:2:$#-2}") n=${*: -1}
    for AUTOGRAPH_COMPARE_MS in 5 8 12 18 27 40; do
        export AUTOGRAPH_COMPARE_MS
        same "${command[@]}" "$option=$n"
        cat summary
        if [ "$(figure replayed)" -ge 1000 ] && [ "$(figure 'not looked at')" -ge 1000 ] &&
            grep -qE 'compared with eager: [0-9.]+ times as fast \(half of [0-9]+ pairs' summary; then
            return 0
        fi
        n=$((3 * n))
    done
    return 1
}

@test "every other span eager" {
    export AUTOGRAPH_TEST_BUILD=inline
    compared --steps "$loop" --reps=1 250
    compared --steps "$loop" --sync=none --reps=1 2500 # its steps are short
    compared --steps "$loop" --changing --reps=1 250
    compared --reps "$heat" 4
}

@test "every other span eager: ops so far apart that a span holds few of them" {
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 \
        compared --steps "$loop" --sync=kernel --gpu-us=40 --reps=3 60
    at_least "share replayed" "$(replayed_share)" 25
}

@test "every other span eager: a program that ends too soon, and one that never repeats" {
    AUTOGRAPH_COMPARE_MS=100000 same "$loop" --steps=100 --reps=2
    grep 'compared with eager: the program ended before' summary
    for steps in 500 1500 4500 13500; do # until there is a pair
        AUTOGRAPH_COMPARE_MS=5 same "$loop" --never-repeat --steps=$steps --reps=1
        [ "$(replayed_share)" -eq 0 ]
        ! grep -q 'compared with eager: [0-9.]* times' summary || break
    done
    grep 'compared with eager: [0-9.]* times' summary
}

@test "every other span eager: what observes or is off compares nothing" {
    for mode in 0 observe; do
        AUTOGRAPH=$mode AUTOGRAPH_COMPARE_MS=5 same "$loop" --steps=200 --reps=2
        none grep compared summary
    done
}

@test "a program that captures its own graph is left alone" {
    same "$loop" --graph --steps=300 --reps=2
    grep -q "ops during the program's own captures: 20" summary
    [ "$(figure 'graphs built')" -eq 0 ]
}

@test "NVENC and its like take frames out of the program's stream" {
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$AG_BUILD/tests/command
    AUTOGRAPH_MAX_DEFER_US=200000 inline_replays 90 "$cases" encode 200
}

@test "a program that sets its context's limits and preferences in every step, to what they are" {
    inline_replays 90 "$cases" settings 100
    [ "$(figure 'times that all sequences were invalidated (limits, unknown calls, too many signatures)')" -eq 4 ]
}

@test "a program that changes in every step what graphs depend on is told so, not to run for longer" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" changing-attribute 200
    grep 'why not more: mostly because it changes attributes of its kernels' summary
    AUTOGRAPH_TEST_BUILD=inline same "$cases" changing-limit 200
    grep 'why not more: mostly because limits of a context' summary
}

@test "a capture that begins by an entry point of a newer driver gets all its kernels" {
    export AUTOGRAPH_MAX_DEFER_US=200000
    inline_replays 90 "$cases" newer-capture 100
    grep -c "^20 nodes" with.out | grep -x 6
    [ "$(figure "ops during the program's own captures")" -eq 120 ]
}

@test "a program that is told of failed calls is told of its own" {
    inline_replays 70 "$cases" error-log 200
    [ "$(grep -c '^heard' with.out)" -eq 5 ]
    AUTOGRAPH_TEST_BUILD=thread same "$cases" error-log 200
}

@test "a program that is told of failed calls is not told of graphs that fail" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$cases" error-log 200
    for call in cuGraphInstantiateWithFlags:2 cuGraphAddKernelNode_v2:30 cuGraphUpload:1 \
        cuGraphExecKernelNodeSetParams_v2:5 cuGraphLaunch:5; do
        rm -f summary
        SIMCUDA_FAIL=$call=2 AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$cases" error-log 200 >failed.out
        diff with.out failed.out
        grep -Eq '(graph builds|graph uploads|node updates|graph launches) failed: [1-9]' summary
    done
}

@test "a copy from host memory by cuMemcpyAsync is a sync point and no op" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" error-log 200
    cat summary
    [ "$(figure 'ops that cannot be recorded (parameters, attributes, kind of memory), submitted at once')" -eq 0 ]
    grep -Eq 'sync point cuMemcpyAsync +200$' summary
}

@test "collective kernels are launched at once, what is between them by graphs" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" collective 50
    cat summary
    [ "$(figure 'collective kernels, submitted at once')" -eq 50 ]
    at_least "replayed per cent" "$(replayed_share)" 85
}

# A dormant stream lets them pass. If streams that replay did not count them, training by NCCL would seem slower with graphs
# than it is, and its streams would be left eager.
@test "collective kernels count alike where the library compares itself with eager launches" {
    as_fast_as_eager "$cases" collective-busy
    at_least "times as fast" "$(times_as_fast)" 667
    local collectives # two thirds of the ops: each counts once
    collectives=$(figure 'collective kernels, submitted at once')
    [ "$collectives" -ge 16000 ]
    grep -q "replayed [0-9]* of $((collectives * 3 / 2)) ops" summary
}

# By how it was found, 0 to 3, by the other way to launch, and in a stream that nobody ever looks at.
@test "a collective kernel in a dormant stream: no graph is made while it waits" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_SUBMIT=inline # or the stream may stay awake
    for how in 0 1 2 3 10 20; do
        same "$cases" collective-dormant $how
        cat with.out summary
        grep -q '^graphs made while it waited: 0$' with.out
        at_least "launches not looked at" "$(figure 'not looked at')" 1000
        [ "$(figure 'collective kernels, submitted at once')" -eq 1 ]
        at_least "graphs made when it had come" "$(figure 'graphs built')" 1
    done
}

@test "nothing is built while a stream waits for a word of the program's" {
    export AUTOGRAPH_TEST_BUILD=inline
    for case in word-in-graph word-in-capture word; do
        same "$cases" $case 60
        cat summary
        at_least "replayed per cent" "$(replayed_share)" 80
        SIMCUDA_LOG=$PWD/log under "$cases" $case 60
        begins=cuStreamWaitValue32
        [ $case != word-in-graph ] || begins=cuDeviceGetPCIBusId
        awk '/ call .* '$begins'/ { waits = 1 } / call .* cuStreamSynchronize/ { waits = 0 }
            / call .* cuGraphInstantiate/ { built++; wrong += waits }
            END { print built + 0, "built,", wrong + 0, "of them behind a wait"; exit !built || wrong }' log
    done
    # whether the wait has passed is asked in relaxed capture mode, or it would end a capture of the program's: entering
    # and leaving that mode are one call each
    awk '/ call .* cuThreadExchangeStreamCaptureMode/ { inside[$3] = !inside[$3] }
        / call .* cuEventQuery/ { asked++; wrong += !inside[$3] }
        END { print asked + 0, "asked,", wrong + 0, "of them in the wrong mode"; exit !asked || wrong }' log
}

@test "a driver that waits in what it loads and builds hangs no program whose streams wait for it" {
    export SIMCUDA_WAITS=1 SIMCUDA_FATBINS=1
    for AUTOGRAPH_TEST_BUILD in inline thread; do
        export AUTOGRAPH_TEST_BUILD
        for case in word-first word word-in-capture word-in-graph host-function function-in-graph; do
            same "$cases" $case 80
            echo "$case $AUTOGRAPH_TEST_BUILD"; cat summary
            # the thread may find no moment without a wait in a program this short
            [ $AUTOGRAPH_TEST_BUILD = thread ] || at_least "replayed per cent" "$(replayed_share)" 80
        done
    done
    needs_own_kernels
    # the fill kernel could not be loaded at the first launch, and was later
    SIMCUDA_LOG=$PWD/log AUTOGRAPH_TEST_BUILD=inline under "$cases" word-first 80
    [ "$(grep -c ' call .* cuModuleLoadData ' log)" -eq 2 ]
    none grep cuGraphAddMemsetNode log
}

# Chunks of four, from the 50th step on in turns with chunks of 16; but where the profitability check is in doubt, and that is the CPU's affair.
@test "two cuts of a step that take turns" {
    export AUTOGRAPH_TEST_PROFIT=1 AUTOGRAPH_LOG=debug
    for AUTOGRAPH_TEST_BUILD in inline thread; do
        export AUTOGRAPH_TEST_BUILD
        same "$cases" slow-host 300
        for _ in 1 2 3 4; do
            ! grep -q "graph of 16 ops built" summary || break
            same "$cases" slow-host 300
        done
        grep "graph of 16 ops built" summary
        at_least "replayed per cent" "$(replayed_share)" 50
    done
}

# A graph of one op gains nothing but what its launch takes less. On the slow driver that is nothing. A busy machine makes
# some launches slow, so more than two of them are eager before there is a graph.
@test "single ops whose graphs take the host longer go eager soon" {
    export AUTOGRAPH_TEST_PROFIT=1 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_SUBMIT=inline AUTOGRAPH_TEST_MIN_REPEATS=10
    for _ in 1 2 3 4 5; do
        SIMCUDA_SLOW_US=50 same "$loop" --sync=kernel --steps=110 --kernels=1 --reps=1
        cat summary
        [ "$(figure replayed)" -gt 85 ] || break
    done
    at_least "replayed" "$(figure replayed)" 20
    at_least "spared" $((85 - $(figure replayed))) 0
    grep -q 'measured to be as fast without graphs, or faster' summary
}

# What the library asks the driver for behind the wait takes 200 ms, meanwhile a graph is asked for, and none afterwards.
@test "a build that is kept back by a wait is made when that is over" {
    export AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_CHUNK=1024 SIMCUDA_SLOW_US=100000
    for _ in 1 2 3 4 5; do # when the threads get their turns is the machine's affair
        same "$cases" word-beside 3
        cat summary
        [ "$(figure replayed)" -lt 20 ] || break
    done
    at_least "replayed of the last three steps" "$(figure replayed)" 20
}

# What they gain is what building may cost. A launch whose beginning was not noted would count with the time since
# the machine started, and no graph would be built any more.
@test "chunks of the op with which the stream joins a sequence are timed as well" {
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 same "$cases" between 1000
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 40
    lost=$(sed -n 's/.*it lost \([0-9]*\)\.[0-9]* ms.*/\1/p' summary)
    at_least "ms lost" 60000 "${lost:-0}"
}

# 8 us for whoever launches it, where the thread sleeps.
@test "host functions wake no thread that has nothing to do" {
    AUTOGRAPH_TEST_BUILD=thread under "$cases" wakes 500 >out
    sleeps=$(sed -n "s/^builder's sleeps [1-9][0-9]* and \([0-9]*\) more$/\1/p" out)
    at_least "sleeps left of 100" $((100 - sleeps)) 0
}

@test "a host function that an error keeps from running is not waited for for ever" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" function-lost 50
    cat summary
    at_least "graphs built" "$(figure 'graphs built')" 1
    at_least "replayed per cent" "$(replayed_share)" 80
}

# The driver takes no launch from such a thread, so what is held back must not be submitted there; but it takes a fill, which
# must not overtake that.
@test "a call in a host function overtakes nothing of another thread's, and loses nothing" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000
    AUTOGRAPH_SUBMIT=inline same "$cases" function-calls 39
    AUTOGRAPH_SUBMIT=thread same "$cases" function-calls 39
    at_least "replayed per cent" "$(replayed_share)" 50
}

# Destroying a graph takes the driver's locks, and whether it waits for the GPU nobody says.
@test "while a stream waits for a word no graph is destroyed with another stream, and none built after a release" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$cases" word-and-other 40
    cat summary
    SIMCUDA_LOG=$PWD/log under "$cases" word-and-other 40
    awk '/ call .* cuStreamWaitValue32/ { waits = 1 } / call .* cuStreamSynchronize/ { waits = 0 }
        / call .* cuStreamDestroy/ { released = 0 } / call .* cuDevicePrimaryCtxRelease/ { released = waits }
        / call .* cuGraphExecDestroy/ { gone++; early += waits && !released }
        / call .* cuGraphInstantiate/ { built++; behind += waits }
        END { print gone + 0, "destroyed,", early + 0, "of them beside a wait;", built + 0, "built,", behind + 0, "behind one"
            exit !gone || !built || early || behind }' log
}

@test "streams and their context go while the builder asks whether they wait" {
    export AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_PROFIT=0 SIMCUDA_SLOW_US=700
    same "$cases" word-and-destroy 60
    cat summary with.err
    none grep -q misuse with.err
}

# calls_and_ms: what the program says that it has measured.
calls_and_ms() {
    sed -n 's/^MEASURED \([0-9]*\) calls in \([0-9]*\) ms/\1 \2/p' with.out
}

# To destroy one takes 20 ms here, and 32 times as long nothing is destroyed behind it.
@test "where it takes long to destroy a graph, graphs are destroyed rarely" {
    export AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_CHUNK=1 AUTOGRAPH_TEST_PROFIT=0 SIMCUDA_SLOW_US=20000
    same "$cases" drops 5000 # or until there are graphs
    cat with.out summary
    read -r calls ms < <(calls_and_ms)
    at_least "graphs destroyed" "$calls" 1
    at_least "ms, and that of the rests" "$ms" $(((calls - 1) * 640))
}

# A launch of a graph takes far longer than its launches would, so few of these are made in a span. In the second run more than
# 8,192 ops have gone by before a comparison may begin, 250 ms after the start. So what is in doubt then are graphs alone, not
# the eager launches before there were any.
@test "where launches of graphs take far longer than launches, the stream is compared with and without graphs" {
    export AUTOGRAPH_TEST_PROFIT=1 AUTOGRAPH_SUBMIT=inline AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    SIMCUDA_SLOW_US=5000 same "$cases" sixty-kinds 60
    cat summary
    at_least "ops submitted eagerly" "$(figure 'or because that was faster')" 1
    SIMCUDA_SLOW_US=200 AUTOGRAPH_TEST_CHUNK=1024 same "$cases" sixty-kinds 100 # a graph for each step
    cat summary
    at_least "kinds of steps" "$(figure sequences)" 60
    at_least "ops submitted eagerly" "$(figure 'or because that was faster')" 1
}

@test "launches to the per-thread default stream are replayed" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" per-thread 50
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 90
}

# What held back ops of such a stream are submitted by goes into the legacy stream, unless it is their own thread.
@test "a thread waits for what another one has submitted for its per-thread default stream" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=1024
    AUTOGRAPH_MAX_DEFER_US=1000000 same "$strayed"
    cat with.out summary
    at_least "times that it waited" "$(figure 'for its per-thread default stream')" 5
    at_least "replayed per cent" "$(replayed_share)" 60
}

@test "what strays keeps its order with copies and events, and does not wait for the program" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=8 AUTOGRAPH_MAX_DEFER_US=1000000
    for kind in copies events waits; do
        [ $kind = copies ] || export AUTOGRAPH_TEST_CHUNK=16
        same "$strayed" $kind
        cat with.out summary
        grep -q "^$kind: ok" with.out
        [ $kind = waits ] || at_least "times that it waited" "$(figure 'for its per-thread default stream')" 20
    done
    at_least "ops that did not stray" "$(figure 'as a stream may have waited for the program')" 100
}

# What strays waits for the kernels of all blocking streams, so the thread does.
@test "where what strays comes late, the stream is compared with and without graphs" {
    SIMCUDA_PACE=8000:2000:300:800 AUTOGRAPH_TEST_PROFIT=1 AUTOGRAPH_SUBMIT=inline same "$strayed" late
    cat summary
    at_least "ops submitted eagerly" "$(figure 'or because that was faster')" 1
}

@test "a per-thread default stream goes on with what that of a thread that has ended had learnt" {
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 same "$strayed" 8
    cat summary
    [ "$(figure 'streams that went on with what one that had been destroyed had learnt')" -eq 6 ]
    at_least "replayed per cent" "$(replayed_share)" 95
}

@test "destructors of a thread that ends wait for its per-thread default stream" {
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_MAX_DEFER_US=1000000 same "$strayed" ends
    cat with.out summary
    grep -q '^ends: ok' with.out
    at_least "replayed per cent" "$(replayed_share)" 60
}

@test "copies of managed memory stay eager, the kernels between them do not" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" memory 50
    cat summary
    grep -q 'ops that cannot be recorded .*: 100' summary
    at_least "replayed per cent" "$(replayed_share)" 70
}

@test "two streams tied by events" { same "$order" events; }
@test "the legacy stream between blocking streams" { same "$order" legacy; }
@test "the legacy stream breaks off known steps, and blocking streams those of the legacy stream" {
    AUTOGRAPH_TEST_BUILD=inline same "$cases" legacy 50
    cat summary
    at_least "flushes for this order" "$(figure 'flushes for the order of streams')" 20
}
@test "host functions see what came before them" { same "$order" callback; }
@test "what is said to be done is done" { same "$order" query; }
@test "copies between launches" { same "$order" copies; }
@test "a limit of shared memory that goes to and fro, and launches over it" {
  same "$order" limits
  none grep -q "graphs of a kernel were dropped" summary
}
@test "threads with a stream each" { same "$order" threads; }
@test "threads with their default streams" {
    needs_own_kernels
    AUTOGRAPH_TEST_BUILD=inline same "$order" per-thread-streams
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "a loop that is cut in equal pieces needs one graph of each kind" {
    # A sanitizer makes 20 launches take longer than the watchdog waits.
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_CHUNK=20 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_MAX_DEFER_US=1000000
    same "$loop" --sync=none --steps=40 --reps=12 # 800 launches between two waits, 20 kinds
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 90
    [ "$(figure 'graphs built')" -le 20 ]
}

@test "memsets become launches of the fill kernel" {
    needs_own_kernels
    export SIMCUDA_FATBINS=1 SIMCUDA_LEAKS=1
    same "$loop" --memsets --steps=400 --reps=2
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 25 # as soon as the thread that builds had a processor
    rm summary
    SIMCUDA_LOG=$PWD/log AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$loop" --memsets --steps=400 --reps=2
    [ "$(grep -c 'cuGraphAddMemsetNode' log)" -eq 0 ]
    [ "$(grep -c ' exec .* memset ' log)" -gt 10000 ]
    built=$(figure 'graphs built')
    at_least "graphs built" "$built" 2
    [ "$(grep -c ' call .* cuGraphUpload' log)" -lt "$built" ] # those that are never launched are not to be on the device
}

@test "a graph whose arguments differ at its first launch is uploaded before they are changed" {
    export AUTOGRAPH_TEST_BUILD=inline
    SIMCUDA_LOG=$PWD/log AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$loop" --changing --steps=100 --reps=2
    cat summary
    grep -oE ' call .* cuGraph(Upload|ExecKernelNodeSetParams_v2|Launch) ' log | awk '{ print $NF }' | uniq -c >calls
    head calls
    uploads=$(awk '$2 == "cuGraphUpload" { n += $1 } END { print n + 0 }' calls)
    at_least "uploads" "$uploads" 2
    [ "$uploads" -le "$(figure 'graphs built')" ]
    awk '$2 == "cuGraphUpload" { exit 0 } $2 == "cuGraphExecKernelNodeSetParams_v2" { exit 1 }' calls
    # each is followed by changes and by its launch
    awk 'was == "cuGraphUpload" && $2 != "cuGraphExecKernelNodeSetParams_v2" { exit 1 } { was = $2 }' calls
}
