#!/usr/bin/env bats
# Launches on streams that sleep: unseen, and in order.

load ../command/common.bash
setup() {
    common_setup
    # a stream that hands its launches over stays awake
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_SUBMIT=inline
}

# dormant_in_order HOW LEAST-REPLAYED-PER-CENT
dormant_in_order() {
    same "$AG_BUILD/tests/bench/bench_dormant_order" "$1"
    cat summary
    at_least "launches not looked at" "$(figure 'not looked at')" 100
    at_least "replayed per cent" "$(replayed_share)" "$2"
}

@test "a blocking stream is dormant, the legacy stream defers" { dormant_in_order legacy 20; }
@test "the legacy stream is dormant, a blocking stream defers" { dormant_in_order blocking 20; }
@test "two threads use a stream while it is dormant and after" { dormant_in_order threads 20; }

# No two launches of its first part are alike, and the budget is for some 900 signatures.
@test "what a program never repeats does not fill the memory" {
    export AUTOGRAPH_MEMORY_MB=1
    same "$AG_BUILD/tests/bench/bench_dormant_order" legacy
    cat summary
    at_least "times that all was forgotten" "$(figure 'invalidated (limits, unknown calls, too many signatures)')" 3
}
