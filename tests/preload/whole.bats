#!/usr/bin/env bats
# The whole library on the simulated driver: calls after which recorded work is void.

setup() {
  : "${AG_BUILD:=$BATS_TEST_DIRNAME/../../build}"
  bin="$AG_BUILD/tests/preload"
  export LD_LIBRARY_PATH="$AG_BUILD/tests/simdriver"
  library="${AG_RUNTIME:+$AG_RUNTIME:}$AG_BUILD/preload/libautograph.so" # a sanitizer's runtime wants to be first
}

# With graphs built where they are needed, so that a program can count on them.
under() {
  AUTOGRAPH_BUILD=inline AUTOGRAPH_GATE=0 AUTOGRAPH_STATS=1 LD_PRELOAD="$library" "$@"
}

@test "a stream with attributes of its own is eager, the other is replayed" {
  run under "$bin/preload_eager_stream"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" == *"ops on streams with properties that graphs lack, submitted at once: 600"* ]]
}

@test "attributes set through either handle of a kernel are noticed" {
  run under "$bin/preload_two_handles"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" == *"times that all graphs were dropped (function attribute): 5"* ]]
}
