#!/usr/bin/env bats
# Launches that are refused, that wait in the driver, or that must not be held back; the end of the process, and of
# threads.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline
}

# ---- errors

# untold HOW: a launch that was held back is refused when the call submits it; one call tells, once, as without.
untold() {
    same "$states" "untold-$1" 0
    cat with.out summary
    grep -q '^told 1 time' with.out
    at_least "replayed ops" "$(figure replayed)" 400
}

# hold_long: the watchdog is not to do what the next call does.
hold_long() {
    export AUTOGRAPH_MAX_DEFER_US=1000000
}

@test "a refused launch is told behind an allocation" { hold_long; untold alloc; }
@test "a refused launch is told behind an allocation in the stream's order" { hold_long; untold alloc-async; }
@test "a refused launch is told behind a copy of rows" { hold_long; untold copy; }
@test "a refused launch is told behind a query of an event" { hold_long; untold event; }
@test "a refused launch is told that the watchdog submitted" { untold watchdog; }

@test "lack of memory passes: what was refused for it once is replayed again" {
    hold_long
    same "$states" transient 200
    cat summary
    grep -q '^told 3 time' with.out
    [ "$(figure 'ops that cannot be recorded (parameters, attributes, kind of memory), submitted at once')" -eq 0 ]
    at_least "replayed per cent" "$(replayed_share)" 97
}

@test "every error that ends a context ends deferral, until that context is destroyed" {
    under "$states" sticky 0 >with.out
    cat with.out
    for code in 214 220 226 700 702 710 714 715 716 717 718 719 721 806 807 810 911 999; do
        grep -qx "$code: eager, eager, replayed" with.out
    done
    # these end none: of the latter three no context has come
    for code in 1 805 808 809; do grep -qx "$code: replayed, replayed, replayed" with.out; done
    grep -qx 'value right' with.out
}

@test "an error that a failing call could not tell is told by a later one" {
    hold_long
    for how in {0..4} 6 5; do
        same "$states" error-behind-error $how
        cat with.out summary
        [ "$(grep -c '^told [12] time' with.out)" -eq 1 ]
        at_least "replayed ops" "$(figure replayed)" 400
    done
    grep -q '^told 2 time' with.out
}

@test "an error that ends a context is neither told in another one nor charged to it" {
    hold_long
    for fails in 0 1; do
        same "$states" error-of-other-context $fails
        at_least "replayed ops" "$(figure replayed)" 6000
        grep -q "errors that end a context: nothing is deferred after them: 1" summary
    done
}

@test "a refusal in one context is told there" {
    hold_long
    for how in inline thread; do
        for legacy in 0 1; do AUTOGRAPH_SUBMIT=$how same "$states" refused-in-other-context $legacy; done
    done
}

@test "a call that names a context returns that one's refusals" {
    hold_long
    for how in inline thread; do
        for here in 0 1; do AUTOGRAPH_SUBMIT=$how same "$states" refused-in-named-context $here; done
    done
}

@test "a refusal in a context that ends next is told by the call that ends it" {
    hold_long
    for how in inline thread; do
        for end in 0 1 2 3; do
            AUTOGRAPH_SUBMIT=$how same "$states" error-of-ended-context $end
            grep -q '^told 1 time' with.out
            at_least "replayed ops" "$(figure replayed)" 1000
        done
        AUTOGRAPH_SUBMIT=$how same "$states" end-of-lost-context 0
        at_least "replayed ops" "$(figure replayed)" 2000
    done
}

@test "the error of a context that a call names is not charged to the current one" {
    hold_long
    for how in 0 1 2; do
        same "$states" asked-for-lost-context $how
        at_least "replayed ops" "$(figure replayed)" 6000
    done
}

@test "a function is its own context's, whatever stream it was launched into first" {
    for how in inline thread; do AUTOGRAPH_SUBMIT=$how SIMCUDA_HANDLES=reuse same "$states" function-of-two-contexts 100; done
    grep -q 'the same handle: 1' with.out
}

@test "a function ends with its context, of which only a per-thread default stream is known" {
    for handles in unique reuse; do SIMCUDA_HANDLES=$handles same "$states" function-of-unknown-context 100; done
    grep -q 'the same handle: 1' with.out
    at_least "replayed ops" "$(figure replayed)" 1000
}

@test "a query that fails leaves no error behind" {
    hold_long
    same "$states" query-fails 3
    at_least "replayed ops" "$(figure replayed)" 1000
}

@test "after an error that ends the context no launch succeeds" {
    for submit in inline thread; do
        SIMCUDA_MODE=inline AUTOGRAPH_SUBMIT=$submit same "$states" sticky-launches 200
    done
    at_least "replayed ops" "$(figure replayed)" 400
}

@test "after a query of an event, an allocation or the like has returned such an error no launch succeeds" {
    hold_long
    for submit in inline thread; do
        for how in {0..5}; do
            AUTOGRAPH_SUBMIT=$submit same "$states" sticky-look $how
            at_least "replayed ops" "$(figure replayed)" 1000
        done
    done
}

# ---- calls that may wait for what is held back

@test "what is held back is submitted before code is loaded, and before graphs are instantiated, updated or destroyed" {
    hold_long
    for how in {0..9}; do
        SIMCUDA_WAITS=1 AUTOGRAPH_TEST_CHUNK=40 same "$states" load-behind-publish $how
        at_least "replayed ops" "$(figure replayed)" 4000
    done
}

@test "a variable that is looked up in every step tears no sequence" {
    AUTOGRAPH_TEST_BUILD=inline same "$states" variable-in-step 2000
    at_least "replayed ops" "$(figure replayed)" 3000
}

@test "what is held back does not wait until a context has been made" {
    hold_long
    AUTOGRAPH_TEST_CHUNK=40 same "$states" first-retain 200
    at_least "replayed ops" "$(figure replayed)" 2000
}

@test "nothing is built while a stream waits for a semaphore of another API" {
    SIMCUDA_WAITS=1 same "$states" semaphore 0
    at_least "replayed ops" "$(figure replayed)" 1000
    SIMCUDA_WAITS=1 same "$states" semaphore 1
}

@test "a collective kernel is launched behind a build, not beside it: by itself, and in a graph" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    export AUTOGRAPH_TEST_BUILD=thread SIMCUDA_WAITS=1
    for in_graph in 0 1; do
        same "$states" peers $in_graph
        cat summary
        at_least "graphs built" "$(figure 'graphs built')" 50
    done
}

@test "a kernel waits for a word behind further launches, and the driver for the kernel where a graph needs more memory" {
    export AUTOGRAPH_TEST_GRIDS=1000000 AUTOGRAPH_TEST_BUILD=thread
    for submit in inline thread; do
        AUTOGRAPH_SUBMIT=$submit SIMCUDA_WAITS=33 same "$states" word-behind-launches 150
        cat summary
        at_least "times held up" "$(figure "and got nothing new, so its kernel may wait for the program")" 1
        at_least "graphs built" "$(figure 'graphs built')" 50 # behind the word
    done
}

@test "streams end, with their contexts and in children, while the builder looks whether streams stand still" {
    export AUTOGRAPH_TEST_GRIDS=1000000 AUTOGRAPH_TEST_BUILD=thread
    for how in 0 1 2; do
        SIMCUDA_WAITS=33 same "$states" looks-beside-ends $how
        cat summary
        at_least "times held up" "$(figure "and got nothing new, so its kernel may wait for the program")" 1
    done
}

@test "an allocation has enough memory without the graphs, while another thread replays" {
    export SIMCUDA_MEMORY_MB=64 SIMCUDA_NODE_BYTES=20000 AUTOGRAPH_TEST_BUILD=thread
    for submit in inline thread; do
        AUTOGRAPH_SUBMIT=$submit same "$states" memory-beside-thread 300
        at_least "given back" "$(figure 'times that graphs were given back, the program being short of device memory')" 20
    done
}

@test "signatures that are too many are invalidated once nothing waits for the program" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    SIMCUDA_WAITS=1 AUTOGRAPH_MEMORY_MB=1 same "$states" signatures-beside-wait 100
    at_least "times" "$(figure 'times that all sequences were invalidated (limits, unknown calls, too many signatures)')" 1
}

@test "before a stream is told to wait for a word or a host function, what the thread holds back elsewhere is submitted" {
    hold_long
    for how in {0..4}; do
        AUTOGRAPH_TEST_CHUNK=40 same "$states" wait-behind-write $how
        at_least "replayed ops" "$(figure replayed)" 500
    done
}

# ---- attributes of kernels

@test "an attribute that was refused, or whose kernel was unloaded, is not taken for set" {
    under "$states" refused-attribute 0 >with.out
    cat with.out
    grep -qx '50: built' with.out
    grep -qx '50 again: not built' with.out
    SIMCUDA_HANDLES=reuse under "$states" attribute-of-unloaded 0 >with.out
    grep -qx '50: built' with.out
}

@test "steps that load a module and unload it are replayed but for its kernels, and those are forgotten" {
    for at in 0 1 39; do
        same "$states" module-in-step $at
        at_least "replayed per cent" "$(replayed_share)" 95
    done
    same "$states" module-in-step 40
    cat summary
    local known
    known=$(sed -n 's/.*sequences \([0-9]*\) .* \([0-9]*\) evicted.*/\1 - \2/p' summary)
    echo "sequences that are known: $known"
    [ $((known)) -le 20 ]
    at_least "sequences" "${known% -*}" 100
}

# ---- full queues

# full CALL: the call of `states full`, whichever of the two streams came first.
full() {
    export SIMCUDA_QUEUE=32
    same "$states" full $((2 * $1))
    cat with.out
    same "$states" full $((2 * $1 + 1))
    at_least "replayed ops" "$(figure replayed)" "${2-1000}"
}

@test "full queue: a step of another thread goes on" { full 0; }
@test "full queue: another thread allocates" { full 1; }
@test "full queue: another thread's events" { full 2; }
@test "full queue: another thread reads back" { full 3; }
@test "full queue: another thread asks for the stream, which is never at rest" {
    full 4
    grep -q "^the other's stream: 600$" with.out
}
@test "full queue: another thread makes, uses and destroys a stream" { full 5; }
@test "full queue: another thread fills and copies, which the stream is not ordered with" { full 6; }
# The figures of the stream whose thread stays in the driver are older.
@test "full queue: the process ends" { full 7 100; }
@test "full queue: another thread launches more signatures than the library keeps" {
    AUTOGRAPH_MEMORY_MB=1 full 8 100
    grep -q "^launched$" with.out
}

@test "full queue: another thread loads code and instantiates a graph" { full 9; }

@test "full queue: the watchdog waits for room, and what another stream holds back is submitted all the same" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer makes the program so slow that it holds nothing back where it should"
    export SIMCUDA_QUEUE=32
    for first in 0 1; do
        same "$states" full-of-rest $first
        cat with.out
        at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 2
    done
}

@test "full queue: the room is made behind another thread's retain of a primary context" {
    hold_long
    for how in 0 1 2; do
        for submit in inline thread; do
            SIMCUDA_QUEUE=4 AUTOGRAPH_TEST_CHUNK=40 AUTOGRAPH_SUBMIT=$submit AG_TIMEOUT=30 same "$states" primary-beside-full-queue $how
            at_least "replayed ops" "$(figure replayed)" 500
        done
    done
}

@test "a stream is at rest only behind what another thread holds back" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer makes the program so slow that it holds nothing back where it should"
    export AUTOGRAPH_MAX_DEFER_US=20000
    local of
    for of in other legacy; do
        same "$states" query-of-$of 20
        cat with.out summary
        at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 1
    done
}

# ---- nothing is to be deferred

@test "CUDA_LAUNCH_BLOCKING=1: each launch reports its own error, and the host sees results behind it" {
    export CUDA_LAUNCH_BLOCKING=1
    same "$states" blocking 300
    cat with.out summary
    grep -q '^reads of the host that saw old data: 0$' with.out
    grep -q '^launch 1: 700$' with.out
    [ "$(figure replayed)" -eq 0 ]
    grep -q 'CUDA_LAUNCH_BLOCKING is set' summary
    CUDA_LAUNCH_BLOCKING=0 same "$states" transient 100 # any other value changes nothing
    at_least "replayed ops" "$(figure replayed)" 1500
}

@test "a kernel that may launch kernels is never recorded, and the summary says why" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    same "$states" children 300
    cat with.out summary
    grep -q '^value right$' with.out
    grep -q 'cannot be recorded (kernel that may launch kernels (dynamic parallelism)) (about 300 ops)' summary
    at_least "replayed ops" "$(figure replayed)" 3000
}

@test "CUDA_DEVICE_MAX_CONNECTIONS=1: the device gets work in the order of the launches, over all streams" {
    export CUDA_DEVICE_MAX_CONNECTIONS=1
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    SIMCUDA_MODE=inline same "$states" one-connection 300 # work runs as it comes to the driver
    cat with.out summary
    grep -q '^value right$' with.out
    at_least "replayed ops" "$(figure replayed)" 2000
    at_least "flushes for the order" "$(grep -c 'flushes for the order' summary)" 1
}

@test "an unknown export table during a capture: nothing is replayed behind it" {
    export SIMCUDA_TABLES=01020304-0506-0708-090a-0b0c0d0e0f10
    same "$states" table-in-capture 100
    cat with.out summary
    grep -q '^graphs launched behind it: 0$' with.out
    at_least "launches that nobody looked at" "$(figure "not looked at")" 2000
    at_least "replayed before it" "$(figure replayed)" 1500
}

@test "what another thread holds back is submitted before a copy between devices in the default stream, by every call" {
    hold_long
    for how in {0..9}; do
        same "$states" copy-between-devices $how
        cat with.out
        at_least "replayed ops" "$(figure replayed)" 200
    done
}

@test "what is held back in one stream is submitted before a capture begins in another" {
    hold_long
    same "$states" held-at-capture 90
    cat summary
    at_least "replayed ops" "$(figure replayed)" 1000
}

@test "no thread can be started that bounds deferral: nothing is deferred" {
    for has in 0 1; do
        for build in inline thread; do
            AUTOGRAPH_TEST_BUILD=$build AUTOGRAPH_STATS=2 under "$states" no-threads "$has" >with.out 2>summary
            cat with.out summary
            grep -qx seen with.out
            grep -qx 'value right' with.out
        done
        [ $has -eq 1 ] || [ "$(figure 'graphs built')" -eq 0 ]
    done
}

@test "where no thread can be started that builds, the program does not try at every chunk, and is told why once" {
    for has in 0 1; do # the first is the watchdog's
        AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_SUBMIT=inline under "$states" refused-threads $has >with.out 2>err
        cat with.out err
        grep -qx 'value right' with.out
        [ "$(grep -c 'no builder thread could be started' err)" -eq $has ]
        [ "$(grep -c 'replayed 0 of 8000 launches: no thread of the library can be started' err)" -eq 1 ]
    done
    [ "$(sed -n 's/^threads asked for: //p' with.out)" -le 5 ]
}

@test "without memory the watchdog submits what is held back as soon as with it" {
    local no_memory=$AG_BUILD/tests/fuzz/libno_memory.so
    [ -e "$no_memory" ] || skip "a sanitizer allocates in the library's place"
    needs_own_kernels # fences: the words are in memory of the host
    preload=$no_memory:$preload NO_MEMORY_THREAD=autograph-watch same "$states" polls-anywhere 200
    cat with.out summary
    at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 10
    # more streams than its reserve has room for
    preload=$no_memory:$preload NO_MEMORY_THREAD=autograph-watch SIMCUDA_MODE=inline same "$states" polls-beside-streams 1100
    cat with.out summary
    at_least "replayed ops" "$(figure replayed)" 500
}

@test "the library's threads are ordinary ones, on the processors of the process" {
    AUTOGRAPH_TEST_BUILD=thread under "$states" own-threads 2000 >with.out
    cat with.out
    processors=$(sed -n 's/^processors: //p' with.out)
    at_least "threads" "$(grep -c '^a thread: ' with.out)" 2
    [ "$(grep -c "^a thread: class of its own, ordinary, $processors processors$" with.out)" -eq "$(grep -c '^a thread: ' with.out)" ]
}

@test "a real-time thread on the only processor: nothing is deferred" {
    AUTOGRAPH_STATS=2 under taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" "$states" starving 0 >with.out 2>summary
    cat with.out summary
    grep -qx seen with.out
    [ "$(figure 'graphs built')" -eq 0 ]
    at_least "builds put off" "$(figure 'graph builds put off, nobody could submit what is held back (no thread can be started, or a real-time thread on one processor)')" 1
}

@test "a program in which some host function always waits is told so" {
    export AUTOGRAPH_TEST_BUILD=thread
    for run in {1..10}; do # the builder may look too late, and build when the last one has returned
        same "$states" host-functions 3000
        cat summary
        ! grep -q 'why not more: mostly because something on the GPU waited for the host' summary || return 0
    done
    false
}

@test "a program that is in the call of a host function for long is told so" {
    export AUTOGRAPH_TEST_BUILD=thread
    for run in {1..10}; do # the builder may be asked too late
        same "$submit" adds 1000
        cat summary
        ! grep -q 'why not more: mostly because something on the GPU waited for the host' summary || return 0
    done
    false
}

@test "an error that is met while another context is current ends with its own context" {
    same "$states" sticky-elsewhere 5
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 95
}

# ---- ends

# beside CASE: many streams hold something back, so that a thread which passes by them while they are submitted
# overtakes; seen in every third to fifth run where it can.
beside() {
    export SIMCUDA_MODE=inline AUTOGRAPH_MAX_DEFER_US=1000000
    same "$states" "$1" 0
    for run in {1..40}; do
        [ "$(under "$states" "$1" 0)" = "worker: right" ]
    done
}

@test "a thread that goes on while the process ends sees its own order" {
    beside exit
    at_least "replayed ops" "$(figure replayed)" 1000
}

@test "a thread that goes on while another device's context dies sees its own order" {
    beside dead
}

@test "the process ends beside a full queue of a thread that holds something back" {
    export SIMCUDA_QUEUE=2 AUTOGRAPH_TEST_CHUNK=4
    for run in {1..5}; do # where the watchdog gets no processor for ten milliseconds, the process stays
        ! AG_TIMEOUT=10 same "$states" exit-beside-full-queue 0 || return 0
    done
    false
}

@test "a process that locks itself for a checkpoint can ask for its state, and unlock itself" {
    for how in inline thread; do AG_TIMEOUT=40 AUTOGRAPH_SUBMIT=$how AUTOGRAPH_TEST_BUILD=inline same "$states" locked-for-checkpoint 20; done
}

@test "exit() in a signal handler that has interrupted a launch" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer objects to the program: its handler allocates"
    export SIMCUDA_MODE=inline
    for kernels in 0 3 10 11 12 13; do
        same "$states" exit-in-handler $kernels
        grep -qx 'the handler ends the process' with.out
    done
    same "$states" exit-in-handler-locked 50 # the summary is left out then
    grep -qx 'the handler ends the process' with.out
    same "$states" exit-in-handler-between 50
    at_least "replayed ops" "$(figure replayed)" 500
}

@test "exit() in a signal handler with a small stack of its own" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's frames are larger"
    # Of whole pages; a signal alone takes more on some processors. The summary takes more as well, so there is none.
    for pages in {1..16}; do
        ! timeout 60 "$states" exit-on-alternate-stack $((pages * 4096)) 2>err || break
    done
    echo "$pages pages, without the library"
    under "$states" exit-on-alternate-stack $(((pages + 1) * 4096)) >with.out
    grep -qx 'the handler ends the process' with.out
}

@test "the library's threads take no signal that the program waits for" {
    AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_BUILD=thread same "$states" signals-are-awaited 2000
    cat with.out
    [ "$(grep -c '^signal [0-9]*: seen$' with.out)" -eq 3 ]
}

@test "threads that are cancelled leave no lock behind" {
    export SIMCUDA_SLOW_US=1
    same "$states" cancel 200
    cat summary
    at_least "replayed ops" "$(figure replayed)" 1000
}

@test "a thread that has been cancelled makes the first calls, or ends the process" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime looks whether a thread has been cancelled"
    for log in warn debug; do
        AUTOGRAPH_LOG=$log AG_TIMEOUT=20 same "$states" cancelled-at-start 50
        grep -qx 'behind the first calls' with.out
    done
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how AG_TIMEOUT=20 same "$states" cancelled-at-exit 200
    done
}

@test "threads that are cancelled while they wait for a build leave no lock behind" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    [ -z "${AG_RUNTIME-}" ] || skip "AddressSanitizer's runtime does not bear threads that are cancelled inside a call"
    AUTOGRAPH_TEST_BUILD=thread SIMCUDA_SLOW_US=300 same "$states" cancel-behind-build 30
    cat summary
    at_least "graphs built" "$(figure 'graphs built')" 20
}

@test "a thread that is cancelled while a stream waits for the program leaves no lock behind" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime looks whether a thread has been cancelled"
    for how in 0 1 2; do # its first launch, another such wait, the end of that stream
        SIMCUDA_SLOW_US=1 AG_TIMEOUT=20 same "$states" cancel-beside-wait $how
    done
}

# ---- attributes

@test "cooperative launches" {
    same "$states" cooperative 1000
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 97
}

@test "launch attributes with the stack's content in the bytes that mean nothing" {
    same "$states" attributes 3000
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 97
}
