#!/usr/bin/env bats
# What a kernel writes to memory of the host is there when the host sees a word that is written later. In graphs that
# takes fences between kernels.

load common.bash
setup() {
    common_setup
    [[ ${AG_RUNTIME-} != *tsan* ]] || skip "ThreadSanitizer calls it a race that the GPU writes what the host polls"
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline SIMCUDA_GRAPHS=last
}

# orders CASE STEPS PERCENT: nothing comes late, and at least so much is replayed, so that something was tried. On a busy
# machine the chunks of a program that polls rest for 64 visits of their sequence, perhaps again and again.
orders() {
    local how
    needs_own_kernels
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how same "$AG_BUILD/tests/command/command_visible" "$1" "$2"
        grep -qx '0 words came late' with.out
        none grep -q misuse with.err
        cat summary
        none grep -q 'please report' summary
        at_least "replayed per cent" "$(replayed_share)" "$3"
    done
}

@test "kernels write the data and the word" { orders kernels 1000 20; }
@test "a small copy writes the word" { orders copies 1000 20; }
@test "the data comes from a stream that joins" { orders branches 1000 20; }
@test "kernels whose data went to the device before" { orders switches 960 20; }
@test "memory that was the device's becomes the host's" { orders reused 1200 20; }
@test "another kernel writes to the host each time" { orders rotates 1000 20; }
@test "memory that the program has registered" { orders registered 1000 20; }
@test "a kernel goes back from the end of the memory" { orders backwards 1000 20; }
@test "memory that kernels know by another address" { orders combined 1000 20; }
@test "memory that the first versions of calls give" { orders old 1000 20; }
@test "memory of the host that the program maps" { orders mapped 1000 20; }
@test "kernels beside such memory have no fences" {
    orders beside 1000 20
    [ "$(figure 'fences built into graphs')" -eq 0 ]
}
@test "memory of another device" { SIMCUDA_DEVICES=2 orders peer 960 20; }
@test "where the library has no kernel for fences, the summary says so" {
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how same "$AG_BUILD/tests/command/command_visible" kernels 1000
        cat summary
        grep -q 'why not more: mostly because its kernels have addresses of pinned memory' summary
    done
}
