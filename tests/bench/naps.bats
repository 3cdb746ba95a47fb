#!/usr/bin/env bats
# Launches on streams that sleep: unseen, and in order.

load ../command/common.bash
setup() {
    common_setup
    export AUTOGRAPH_GATE=0 AUTOGRAPH_BUILD=inline
}

# sleeps_in_order HOW LEAST-REPLAYED-PER-CENT
sleeps_in_order() {
    same "$AG_BUILD/tests/bench/bench_nap_order" "$1"
    cat summary
    at_least "launches not looked at" "$(figure 'not looked at')" 100
    at_least "replayed per cent" "$(replayed_share)" "$2"
}

@test "a blocking stream sleeps, the legacy stream defers" { sleeps_in_order legacy 20; }
@test "the legacy stream sleeps, a blocking stream defers" { sleeps_in_order blocking 20; }
@test "two threads use a stream while it sleeps and after" { sleeps_in_order threads 20; }
