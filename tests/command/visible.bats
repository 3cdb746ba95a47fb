#!/usr/bin/env bats
# What a kernel writes to memory of the host is there when the host sees a word that is written later. In graphs that
# takes fences between kernels.

load common.bash
setup() {
    common_setup
    [[ ${AG_RUNTIME-} != *tsan* ]] || skip "ThreadSanitizer calls it a race that the GPU writes what the host polls"
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline SIMCUDA_GRAPHS=last
}

# orders CASE STEPS PERCENT: nothing comes late, and at least so much is replayed.
orders() {
    local how
    needs_own_kernels
    for how in inline thread; do
        AUTOGRAPH_SUBMIT=$how same "$AG_BUILD/tests/command/command_visible" "$1" "$2"
        grep -qx '0 words came late' with.out
        none grep -q misuse with.err
        cat summary
        at_least "replayed per cent" "$(replayed_share)" "$3"
    done
}

@test "kernels write the data and the word" { orders kernels 300 80; }
@test "a small copy writes the word" { orders copies 300 80; }
@test "the data comes from a stream that joins" { orders branches 300 50; }
@test "kernels whose data went to the device before" { orders switches 320 30; }
@test "memory that was the device's becomes the host's" { orders reused 600 60; }
@test "another kernel writes to the host each time" { orders rotates 400 80; }
@test "memory that the program has registered" { orders registered 300 80; }
@test "a kernel goes back from the end of the memory" { orders backwards 300 80; }
@test "memory that kernels know by another address" { orders combined 300 80; }
@test "memory that the first versions of calls give" { orders old 300 80; }
@test "memory of the host that the program maps" { orders mapped 300 80; }
@test "kernels beside such memory have no fences" {
    orders beside 300 80
    [ "$(figure 'fences built into graphs')" -eq 0 ]
}
@test "memory of another device" { SIMCUDA_DEVICES=2 orders peer 320 30; }
