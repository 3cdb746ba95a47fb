#!/usr/bin/env bats
# Contexts and streams that come and go while other threads launch: results are right, only what has ended is
# forgotten, and what has not costs nothing.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline
}

ended() {
    figure 'contexts that have ended'
}

@test "a retain and a release of the primary context in every step cost nothing" {
    export AUTOGRAPH_MAX_DEFER_US=1000000 # the watchdog is not to do what the end of a step does
    same "$life" pairs 1000
    cat summary
    [ "$(ended)" -eq 0 ]
    none grep -q 'sync point cuDevicePrimaryCtx' summary
    at_least "replayed per cent" "$(replayed_share)" 99
}

@test "retains and releases of several threads beside others that launch" {
    same "$life" pairs-of-threads 400
    cat summary
    [ "$(ended)" -eq 0 ]
    none grep -q 'sync point cuDevicePrimaryCtx' summary
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "the last release ends the context, and the next one is replayed again" {
    same "$life" last-release 100
    cat summary
    [ "$(ended)" -eq 3 ]
    at_least "replayed per cent" "$(replayed_share)" 95
}

@test "another device is reset beside threads that launch" {
    same "$life" resets 300
    cat summary
    [ "$(ended)" -eq 300 ]
}

@test "another context is destroyed beside threads that launch" {
    same "$life" contexts 300
    cat summary
    [ "$(ended)" -eq 300 ]
}

@test "a stream of a context that ends is launched to for the first time" {
    export AUTOGRAPH_MAX_DEFER_US=1000000
    for build in inline thread; do
        AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_BUILD=$build same "$life" new-in-ending 50
        AUTOGRAPH_TEST_BUILD=$build same "$life" new-in-ending 50
        cat summary
        [ "$(ended)" -eq 50 ]
        at_least "replayed per cent" "$(replayed_share)" 25 # of the context that stays nearly all
    done
}

@test "a stream gets the handle of one whose context is still ending" {
    SIMCUDA_HANDLES=reuse SIMCUDA_SLOW_US=100000 same "$life" handle-again 4
    grep -q 'graphs lack: 0$' with.out
}

@test "a green context gets the handle of one whose end has not returned" {
    SIMCUDA_HANDLES=reuse SIMCUDA_SLOW_US=100000 same "$life" green-handle-again 2
    grep -q 'graphs lack: 0$' with.out
}

@test "nobody asks for the events of a stream that waited while its green context ends" {
    SIMCUDA_SLOW_US=100000 same "$life" green-asked 2
}

@test "a context is destroyed while the current one waits for the program" {
    needs_own_kernels # which are unloaded there
    SIMCUDA_FATBINS=1 AG_TIMEOUT=20 same "$life" ends-beside-wait 3
    cat summary
    [ "$(ended)" -eq 3 ]
}

@test "a green context is destroyed beside threads that launch" {
    same "$life" green-contexts 300
    cat summary
    [ "$(ended)" -eq 0 ]
    [ "$(figure sequences)" -le 50 ] # the other streams learn theirs once
}

@test "what a stream was found to be outlives calls that end no context" {
    same "$life" kept-property 20
    grep -q 'graphs lack: 0$' with.out
    cat summary
    [ "$(figure 'ops on streams with properties that graphs lack, submitted at once')" -eq 1600 ]
}

@test "calls that would end a context fail: it is replayed as before" {
    same "$life" failing-ends 100
    cat summary
    [ "$(ended)" -eq 0 ]
    at_least "replayed ops" "$(figure replayed)" 5000 # those of a closed context count nowhere
    at_least "replayed per cent" "$(replayed_share)" 90
}

# waits CASE: nothing is built while something of a living context waits for the program, though another context ends.
waits() {
    same "$life" "$1" 100
    cat with.out summary
    grep -q '^built behind .*: 0$' with.out
    [ "$(ended)" -eq 2 ]
    at_least "replayed of the ops behind it" "$(figure replayed)" 1800
}

@test "a host function that waits outlives another context" { waits host-function-waits; }
@test "a stream that waits for a word outlives another context" { waits stream-waits; }
@test "a wait in a stream of which nothing is kept outlives another context" { waits loose-waits; }

@test "a wait in a stream of which nothing is kept ends with its context, beside another one" {
    SIMCUDA_HANDLES=reuse SIMCUDA_SLOW_US=100000 same "$life" loose-waits-while-ending 5
}

@test "a context that is detached from, but not for the last time, does not end" {
    same "$life" attached 100
    cat with.out summary
    grep -q '^built behind a wait: 0$' with.out
    [ "$(ended)" -eq 1 ]
    at_least "replayed of the ops behind it" "$(figure replayed)" 1800
}

@test "a capture ends with its context, and what comes then is replayed" {
    same "$life" lost-captures 200
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 95
    [ "$(figure "ops during the program's own captures")" -eq 0 ]
}

@test "a capture does not end with a stream that it has spread to" {
    for submit in inline thread; do
        AUTOGRAPH_SUBMIT=$submit same "$life" spread-capture 100
        cat summary
        at_least "replayed per cent" "$(replayed_share)" 90
        [ "$(figure "ops during the program's own captures")" -eq 40 ]
    done
}

@test "a context that ends leaves a capture in another one alone" {
    needs_own_kernels # which are unloaded there
    SIMCUDA_FATBINS=1 same "$life" context-ends-beside-capture 100
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 80
    grep -qx 'behind the capture: right' with.out
}

@test "a program that never ends a capture is told so" {
    same "$life" forgotten-capture 100
    cat summary
    grep -q 'replayed 0 of 2000 ops' summary
    grep -q 'why not more: mostly because it has begun a stream capture that has not ended' summary
    under "$life" forgotten-capture 100 2>err
    grep -q 'replayed 0 of 2000 launches: it has begun a stream capture that has not ended' err
}
