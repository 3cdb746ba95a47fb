#!/usr/bin/env bats
# Export tables: a program takes functions of the driver from a table that nobody knows, and calls them.

load common.bash
setup() {
    common_setup
    export AUTOGRAPH_TEST_PROFIT=0
    tables=$AG_BUILD/tests/command/command_tables
    id=51a7ab1e-0000-0000-0000-000000000001
}

@test "a function that each step calls does not keep the step from replaying" {
    for build in inline thread; do
        export AUTOGRAPH_TEST_BUILD=$build
        same "$tables" quiet 400
        cat summary
        # A thread builds when it gets a processor, which may be after the program's end.
        [ $build = thread ] || at_least "replayed per cent" "$(replayed_share)" 90
        [ "$(figure 'calls through export tables that nobody knows')" -eq 400 ]
        [ "$(figure 'times that all sequences were invalidated.*)')" -eq 1 ] # at its first call
        grep -Eq 'sync point cuGetExportTable +400' summary
    done
}

@test "what a function launches, and what it sees, comes behind what was launched before" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$tables" order 400
    cat summary
    at_least "replayed per cent" "$(replayed_share)" 90
    [ "$(figure 'calls through export tables that nobody knows')" -eq 800 ]
}

@test "a function may take memory away: what was known of it is discarded" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    same "$tables" freed 50
    cat summary
    grep -q 'fill of freed memory: [1-9]' with.out
    at_least "replayed per cent" "$(replayed_share)" 70
    same "$tables" memory 200
    at_least "replayed per cent, with fills and copies" "$(replayed_share)" 90
}

@test "whoever asks gets the same table, from several threads too" {
    for round in 1 2 3 4 5; do same "$tables" same; done
}

@test "who calls which function, and how often, is said at AUTOGRAPH_LOG=info" {
    export AUTOGRAPH_LOG=info
    same "$tables" quiet 30
    cat summary
    [ "$(grep -c "the program asks for an export table that nobody knows: $id, 6 words" summary)" -eq 1 ]
    [ "$(grep -c "the program calls entry 1 of the export table $id\$" summary)" -eq 1 ]
    grep -q "entry 1 of the export table $id was called 30 times" summary
    unset AUTOGRAPH_LOG
    same "$tables" quiet 30
    none grep -q "$id" summary
}

# ends_replay WHY NAME: replaying stops where the table is asked for, which is said; forced it goes on.
ends_replay() {
    export AUTOGRAPH_MAX_DEFER_US=1000000 # the watchdog is not to do what the end of a step does
    AUTOGRAPH_LOG=info same "$tables" "$2" 50
    cat summary
    grep -q 'table: there' with.out
    [ "$(grep -c "replaying nothing from here on: $1" summary)" -eq 1 ]
    at_least "replayed before it" "$(figure replayed)" 900
    [ "$(figure replayed)" -le 1020 ] # nothing after it
    AUTOGRAPH_FORCE=1 same "$tables" "$2" 50
    at_least "replayed per cent where it is forced" "$(replayed_share)" 90
}

@test "a table with an entry that is not the driver's ends replay" {
    export AUTOGRAPH_TEST_BUILD=inline
    ends_replay 'an export table that nobody knows has a layout that is not understood' outside
}

@test "a table that a profiler asks for ends replay" {
    export AUTOGRAPH_TEST_BUILD=inline SIMCUDA_TABLES=2c8e0ad8-0710-ab4e-90dd-54719fe5f74b
    ends_replay 'a profiler or checker has asked for an export table' tool
}

@test "a table that is known changes nothing" {
    export AUTOGRAPH_TEST_BUILD=inline
    same "$tables" known 50
    grep -q 'table: there' with.out
    at_least "replayed per cent" "$(replayed_share)" 90
}
