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
  AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_STATS=2 LD_PRELOAD="$library" "$@"
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
  [[ "$output" == *"times that the graphs of a kernel were dropped (function attribute): 5"* ]]
}

@test "a kernel's shared memory is limited to and fro: graphs stay, what is over is refused" {
  run under "$bin/preload_shared_limits"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" != *"graphs of a kernel were dropped"* ]]
  [[ "$output" == *"graphs built"* && "$output" != *"graphs built 0 "* ]]
}

@test "a program that takes small stacks for its threads: the library's are larger" {
  AUTOGRAPH_SUBMIT=thread LD_PRELOAD="$library" run "$bin/preload_thread_stacks"
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" == *"autograph-watch large"* && "$output" == *"autograph-build large"* ]]
  [[ "$output" != *small* ]]
}

@test "a program that closes the log: nothing is written to its own file" {
  export AUTOGRAPH_LOG_FILE="$BATS_TEST_TMPDIR/log" AUTOGRAPH_MISSPELT=1 # which is said early
  AUTOGRAPH_STATS=1 LD_PRELOAD="$library" "$bin/preload_own_file" "$BATS_TEST_TMPDIR/own"
  [ ! -s "$BATS_TEST_TMPDIR/own" ]
  grep -q AUTOGRAPH_MISSPELT "$AUTOGRAPH_LOG_FILE"
  grep -q "launched nothing\|replayed" "$AUTOGRAPH_LOG_FILE"
}

@test "a program that closes the dump: nothing is written to its own file, and that is said" {
  [ -z "${AG_RUNTIME-}" ] || skip "a thread of the library writes there, which ThreadSanitizer calls a race"
  export AUTOGRAPH_TRACE="$BATS_TEST_TMPDIR/dump"
  LD_PRELOAD="$library" "$bin/preload_own_file" "$BATS_TEST_TMPDIR/own" late 2>"$BATS_TEST_TMPDIR/err"
  cat "$BATS_TEST_TMPDIR/err"
  [ ! -s "$BATS_TEST_TMPDIR/own" ]
  grep -q "the program has closed $AUTOGRAPH_TRACE; it ends here" "$BATS_TEST_TMPDIR/err"
  [ -s "$AUTOGRAPH_TRACE" ]
}

@test "a module is unloaded: graphs of others stay" {
  for handles in fresh reuse; do
    SIMCUDA_HANDLES=$handles AUTOGRAPH_TEST_CHUNK=4 run under "$bin/preload_modules" # a change of pace recuts nothing
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"times that the graphs of a module were dropped (module unload): 3"* ]]
  done
}

@test "a setuid program takes no orders from the environment" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime listens to the environment itself"
  [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || skip "needs root and setpriv"
  chmod 755 "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR"
  place="$BATS_TEST_TMPDIR/place"
  mkdir -m 777 "$place"
  cp "$AG_BUILD/preload/libautograph.so" "$AG_BUILD/tests/simdriver/libcuda.so.1" "$BATS_TEST_TMPDIR"
  echo 'int cuInit(unsigned), cuCtxSynchronize(void); int main(void) { cuInit(0); cuCtxSynchronize(); return 0; }' >"$place/p.c"
  cc "$place/p.c" -o "$place/p" -Wl,--no-as-needed -Wl,-rpath,"$BATS_TEST_TMPDIR" \
    "$BATS_TEST_TMPDIR/libautograph.so" "$BATS_TEST_TMPDIR/libcuda.so.1"
  start=(setpriv --reuid=65534 --clear-groups env -u LD_LIBRARY_PATH AUTOGRAPH_LOG=debug AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE="$place/log" "$place/p")
  "${start[@]}" || skip "not reachable for another user"
  [ -s "$place/log" ] # it does as long as the program is like any other
  rm "$place/log"
  chmod u+s "$place/p"
  findmnt -no OPTIONS -T "$place" | grep -q nosuid && skip "the file system knows no setuid"
  "${start[@]}"
  [ ! -e "$place/log" ]
}

@test "nothing of the process is writable and executable" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime is not ours"
  # a program in the middle of its graphs
  LD_PRELOAD="$library" AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_LOG=debug AUTOGRAPH_LOG_FILE="$BATS_TEST_TMPDIR/log" \
    "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 3>&- &
  program=$!
  for _ in $(seq 600); do
    ! grep -qs 'graph of [0-9]* ops built' "$BATS_TEST_TMPDIR/log" || break
    sleep 0.1
  done
  awk '$2 ~ /w/ && $2 ~ /x/' "/proc/$program/maps" >"$BATS_TEST_TMPDIR/bad"
  grep -q libautograph "/proc/$program/maps" && grep -q 'graph of [0-9]* ops built' "$BATS_TEST_TMPDIR/log" ||
    { kill -9 $program; false; }
  kill -9 $program
  wait $program || true
  [ ! -s "$BATS_TEST_TMPDIR/bad" ]
}
