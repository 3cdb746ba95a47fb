#!/usr/bin/env bats
# What preload/ does in processes: with the library loaded, against a libcuda that records its calls.

setup() {
  : "${AG_BUILD:=$BATS_TEST_DIRNAME/../../build}"
  bin="$AG_BUILD/tests/preload"
  told="$BATS_TEST_TMPDIR/told"
  export LD_LIBRARY_PATH="$bin/fake"
  library="$bin/fake/libpreload_told.so"
  library="${AG_RUNTIME:+$AG_RUNTIME:}$library" # a sanitizer's runtime wants to be first
  : > "$told"
}

# Runs a program under the library; what preload/ told capture/ is in the file $told.
under() {
  AG_TEST_FD=9 LD_PRELOAD="$library" "$@" 9>>"$told"
}

none() {
  ! "$@"
}

@test "every symbol, with nothing deferred" {
  AG_TEST_OPEN=0 LD_PRELOAD="$library" "$bin/preload_test_calls"
}

@test "every symbol, with work deferred" {
  AG_TEST_OPEN=1 LD_PRELOAD="$library" "$bin/preload_test_calls"
}

@test "the getter" {
  LD_PRELOAD="$library" "$bin/preload_test_getter"
}

@test "dlsym: versions, RTLD_NEXT, dlerror, other libraries, calls from inside the driver" {
  LD_PRELOAD="$library" "$bin/preload_test_lookup"
}

@test "export tables: copies, calls through them, what is not understood, tools" {
  LD_PRELOAD="$library" "$bin/preload_test_tables"
  AUTOGRAPH=0 LD_PRELOAD="$library" "$bin/preload_test_tables"
}

@test "more unknown entry points than stubs" {
  LD_LIBRARY_PATH="$bin/fake_many" LD_PRELOAD="$library" "$bin/preload_test_threads" many
}

@test "first look-ups from several threads" {
  for round in 1 2 3 4 5; do
    LD_PRELOAD="$library" timeout 60 "$bin/preload_test_threads"
  done
}

@test "the tests of dlsym see a library that is missing" {
  run "$bin/preload_test_lookup"
  [ "$status" -ne 0 ]
}

@test "a program bound with -lcuda: a stub is the first call" {
  run under "$bin/preload_bound" stub
  [ "$status" -eq 0 ]
  [ "$output" = "cuTexObjectDestroy 1" ]
  [ "$(cat "$told")" = "finish" ] # nothing is open: nothing has to begin
}

@test "a program bound with -lcuda: however it is linked, and by pointers too" {
  for how in "" _now _lazy _fixed _fixed_now; do
    for call in hook pointer table; do
      : > "$told"
      run under "$bin/preload_bound$how" $call
      echo "$how $call: $output; $(cat "$told")"
      [ "$output" = "cuCtxSynchronize 1" ]
      [ "$(cat "$told")" = "start replay
barrier cuCtxSynchronize
finish" ]
    done
  done
  # they are what their names say
  readelf -dW "$bin/preload_bound_now" | grep -q BIND_NOW
  none grep -q BIND_NOW <<< "$(readelf -dW "$bin/preload_bound_lazy")"
  readelf -hW "$bin/preload_bound_fixed" | grep -q 'Type: *EXEC'
}

@test "beside a library that the loader starts before the C library: hooks, and the environment stays" {
  library="$library:$bin/libpreload_first.so" run under "$bin/preload_bound" hook
  [ "$output" = "cuCtxSynchronize 1" ]
  grep -q '^barrier cuCtxSynchronize' "$told" # it knows of that file from the environment
}

@test "a program that has a variable named environ of its own: hooks" {
  run under "$bin/preload_bound_environ" hook
  [ "$output" = "cuCtxSynchronize 1" ]
  grep -q '^barrier cuCtxSynchronize' "$told"
}

@test "a library bound with -lcuda and loaded later: with the driver, and after it" {
  for after in "" after; do
    for how in _now _lazy; do
      : > "$told"
      run under "$bin/preload_plugged" "$bin/libpreload_plugin$how.so" $after
      echo "$how $after: $output; $(cat "$told")"
      [ "$output" = "in the constructor 0, then 0" ]
      [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 2 ]
    done
  done
}

@test "a program built for gprof loads a bound library: a look-up replaces what may still be written, or all is eager" {
  run under "$bin/preload_plugged_gprof" "$bin/libpreload_plugin_lazy.so" look
  [ "$output" = "in the constructor 0, then 0" ]
  [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 1 ]
  none grep -q '^observe' "$told"
  : > "$told"
  run under "$bin/preload_plugged_gprof" "$bin/libpreload_plugin_now.so" look
  [ "$output" = "in the constructor 0, then 0" ]
  grep -q "^log start the driver's names could not be replaced everywhere" "$told"
  grep -q "^observe the driver's names could not be replaced everywhere" "$told"
}

@test "a driver with an entry point that is chosen when it is bound: all is eager, which is said" {
  LD_LIBRARY_PATH="$bin/fake_chosen" run under "$bin/preload_bound" hook
  [ "$output" = "cuCtxSynchronize 1" ]
  grep -q "^log start the driver's names could not be replaced everywhere" "$told"
  grep -q "^observe the driver's names could not be replaced everywhere" "$told"
}

@test "the library is opened and closed again by a program: what the loader has of it stays" {
  LD_PRELOAD="${AG_RUNTIME-}" run "$bin/preload_closed" "$bin/fake/libpreload_told.so"
  [ "$status" -eq 0 ]
  [ "$output" = 0 ]
}

@test "another preloaded library has a dlsym as well: it answers, wherever it stands, and its calls are seen" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer looks up names before its functions work"
  tracker="$bin/libpreload_tracker.so"
  for mode in 0 1; do
    for both in "$library:$tracker" "$tracker:$bin/fake/libpreload_told.so"; do
      : > "$told"
      AUTOGRAPH=$mode AG_TEST_FD=9 LD_PRELOAD="$both" run "$bin/preload_closed" "$tracker" 9>>"$told"
      echo "$mode $both: $status $output"
      [ "$status" -eq 0 ]
      [ "$output" = 70 ]
      [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq $mode ]
    done
  done
}

@test "another preloaded library holds a lock while something is loaded" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer has a dlopen of its own"
  loader="$bin/libpreload_loader.so"
  for both in "$library:$loader" "$loader:$library"; do
    library=$both run under timeout -k 5 60 "$bin/preload_closed" "$bin/libpreload_other.so"
    echo "$both: $status $output"
    [ "$output" = 0 ]
  done
  [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 2 ]
}

@test "a malloc that looks up the next one, on a C library where the first look-up allocates" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer has a malloc of its own"
  LD_PRELOAD="$bin/libpreload_early_malloc.so" run ls "$BATS_TEST_FILENAME"
  [ "$status" -eq 0 ]
  [ "$output" = "$BATS_TEST_FILENAME" ]
}

@test "two copies of the library are preloaded: one works, and the other says that it does not" {
  cp "$bin/fake/libpreload_told.so" "$BATS_TEST_TMPDIR"
  library="$library:$BATS_TEST_TMPDIR/libpreload_told.so" run under "$bin/preload_closed" "$bin/libpreload_tracker.so"
  [ "$output" = 0 ]
  [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 1 ]
  [ "$(grep -c "^log start another library has replaced the driver's names" "$told")" -eq 1 ]
}

@test "a plug-in's constructor uses CUDA while another thread makes the first call" {
  run under timeout 60 "$bin/preload_loading" "$bin/libpreload_waiting_plugin.so"
  echo "$output"
  [ "$output" = "loaded" ]
  [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 2 ]
}

@test "programs with pointers of their own by the driver's names run" {
  for mode in 0 1; do
    for place in library program; do
      AUTOGRAPH=$mode run under "$bin/preload_own_pointers_$place"
      echo "$mode $place: $status $output"
      [ "$status" -eq 0 ]
      [ "$output" = "own 7" ]
    done
  done
}

@test "no driver is claimed that is not there" {
  run under "$bin/preload_claims"
  [ "$output" = "weak absent, default absent" ]
  LD_PRELOAD="$library:$bin/fake/libcuda.so.1" run "$bin/preload_claims"
  [ "$output" = "weak there, default there" ]
}

@test "a program bound with -lcuda: a hook is the first call" {
  run under "$bin/preload_bound" hook
  [ "$status" -eq 0 ]
  [ "$output" = "cuCtxSynchronize 1" ]
  [ "$(cat "$told")" = "start replay
barrier cuCtxSynchronize
finish" ]
}

@test "a program bound with -lcuda: a call that invalidates is the first" {
  run under "$bin/preload_bound" track
  [ "$output" = "cuModuleUnload 1" ]
  [[ "$(sed -n 2p "$told")" == "invalidate_module cuModuleUnload module="* ]]
}

@test "a program bound with -lcuda: a hook that asks the driver first is the first" {
  run under "$bin/preload_bound" node
  [ "$output" = "cuGraphAddNode_v2 1" ]
}

@test "AUTOGRAPH=0: bound programs reach the driver, and nothing starts" {
  for call in stub hook track node; do
    AUTOGRAPH=0 AG_TEST_OPEN=1 run under "$bin/preload_bound" $call
    [ "$status" -eq 0 ]
    [[ "$output" == *" 1" ]]
  done
  [ ! -s "$told" ]
}

@test "AUTOGRAPH=0: look-ups answer the driver's own addresses" {
  AUTOGRAPH=0 LD_PRELOAD="$library" run "$bin/preload_bench_stub"
  [ "$status" -eq 2 ] # the stub is the direct function
}

@test "the last flush comes once, before handlers that the program registered earlier" {
  run under "$bin/preload_bound" exit
  [ "$status" -eq 0 ]
  [[ "$output" == *"late cuLaunchKernel"* ]]
  [ "$(grep -c finish "$told")" -eq 1 ]
  # the launch of the program's handler arrives after it
  [ "$(tail -2 "$told" | cut -d' ' -f1 | tr '\n' ' ')" = "finish launch " ]
}

@test "fork: the child passes through and flushes nothing at its exit" {
  run under "$bin/preload_bound" fork
  [ "$status" -eq 0 ]
  [ "$output" = "cuStreamSynchronize 2" ]
  [ "$(cut -d' ' -f1 "$told" | tr '\n' ' ')" = "start launch child sync returned finish " ]
}

@test "a driver older than 12.4 is only observed" {
  FAKE_VERSION=12030 run under "$bin/preload_bound" hook
  [ "$status" -eq 0 ]
  grep -q "^start the driver is older than CUDA 12.4" "$told"
}

@test "a getter that answers something else than exports is only observed" {
  FAKE_OUTSIDE=cuLaunchKernel run under "$bin/preload_bound" hook
  [ "$status" -eq 0 ]
  grep -q "^start the driver's getter answers something else" "$told"
}

@test "under a profiler or checker the program is only observed, unless forced" {
  CUDA_INJECTION64_PATH=/nowhere run under "$bin/preload_bound" hook
  [ "$(head -1 "$told")" = "start CUDA_INJECTION64_PATH is set: a tool watches the driver" ]
  cp "$bin/libpreload_other.so" "$BATS_TEST_TMPDIR/libToolsInjection64.so"
  : > "$told"
  AG_TEST_FD=9 LD_PRELOAD="$library:$BATS_TEST_TMPDIR/libToolsInjection64.so" "$bin/preload_bound" hook 9>"$told"
  [ "$(head -1 "$told")" = "start a profiler or checker is loaded" ]
  : > "$told"
  AUTOGRAPH_FORCE=1 CUDA_INJECTION64_PATH=/nowhere run under "$bin/preload_bound" hook
  [ "$(head -1 "$told")" = "start replay" ]
}

@test "what goes past the library is said: dlmopen; RTLD_DEEPBIND does not" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer refuses RTLD_DEEPBIND"
  under "$bin/preload_past" plain
  [ "$(grep -c '^log' "$told")" -eq 0 ]
  under "$bin/preload_past" deepbind
  [ "$(grep -c '^log' "$told")" -eq 0 ]
  [ "$(grep -c '^barrier cuCtxSynchronize' "$told")" -eq 2 ]
  : > "$told"
  under "$bin/preload_past" namespace
  grep -q "^log start a namespace was opened with dlmopen" "$told"
}

@test "processes without CUDA: no output, no thread, no libcuda" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's runtime is not for programs that are not instrumented"
  source="$BATS_TEST_TMPDIR/x.c"
  echo 'int main(void) { return 0; }' > "$source"
  run under bash -c 'grep -c libcuda /proc/self/maps; ls /proc/self/task | wc -l'
  [ "$output" = "0
1" ]
  run under gcc -c -o "$BATS_TEST_TMPDIR/x.o" "$source"
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  run under python3 -c 'import ctypes, threading; ctypes.CDLL(None).strlen; print(threading.active_count())'
  [ "$output" = "1" ]
  [ ! -s "$told" ]
}

# The smallest stack, in KiB, on which `preload_small_stack $1` loads a library.
least_stack() {
  local size
  for size in {4..64}; do
    if "${@:2}" "$bin/preload_small_stack" "$1" $((size * 1024)) 2>"$BATS_TEST_TMPDIR/err"; then
      echo "$size"
      return
    fi
  done
  return 1
}

@test "processes without CUDA: a library is loaded on as small a stack as ever" {
  [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer's frames are larger"
  for more in thread=0 handler=1; do # a thread has 16 KiB at least, which is plenty
    where=${more%=*}
    eager=$(least_stack "$where" env)
    preloaded=$(least_stack "$where" under)
    echo "$where: $eager KiB, $preloaded with the library"
    [ "$preloaded" -le $((eager + ${more#*=})) ]
  done
  [ ! -s "$told" ]
}

# A figure of the clock would be the machine's affair: nanoseconds are printed, instructions are judged.
@test "a stub costs 4 instructions, and nothing that waits, while nothing is deferred" {
  [ -z "${AG_RUNTIME-}" ] || skip "what a sanitizer adds would be counted"
  run under "$bin/preload_bench_stub" 4
  echo "$output"
  [ "$status" -ne 77 ] || skip "instructions are counted on x86-64 alone"
  [ "$status" -eq 0 ]
}
