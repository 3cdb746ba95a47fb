#!/usr/bin/env bats
# What libautograph.so is as a file.

setup() {
  : "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}" "${AG_BUILD:=$BATS_TEST_DIRNAME/../../build}"
  library="${AG_LIBRARY:-$AG_BUILD/preload/libautograph.so}"
}

# A negation that fails the test wherever it stands ("! command" only does as the last line).
none() {
  ! "$@"
}

@test "exports are the list, and no more" {
  nm -D --defined-only "$library" | awk '{print $3}' | sort > "$BATS_TEST_TMPDIR/exports"
  sed -n 's/^    \(.*\);$/\1/p' "$AG_SOURCE/preload/exports.map" | grep -v '^\*$' | sort \
    > "$BATS_TEST_TMPDIR/allowed"
  grep -q '^dlsym$' "$BATS_TEST_TMPDIR/allowed"
  none grep -q '^cu' "$BATS_TEST_TMPDIR/allowed" # a program may have pointers by these names
  diff "$BATS_TEST_TMPDIR/allowed" "$BATS_TEST_TMPDIR/exports"
}

@test "dlsym has no version of its own" {
  none grep -q 'Version definition' <<< "$(readelf -VW "$library")"
}

@test "neither libcuda nor cudart is needed" {
  readelf -dW "$library" | grep NEEDED
  none grep -Eiq 'NEEDED.*(cuda|nvidia)' <<< "$(readelf -dW "$library")"
}

@test "nothing newer than glibc 2.34 is imported" {
  newest=$(readelf -VW "$library" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
  echo "newest: $newest"
  [ -n "$newest" ]
  [ "$(printf '%s\n2.34\n' "$newest" | sort -V | tail -1)" = 2.34 ]
}

@test "relocations are bound at load, read-only after, and none is in the text" {
  readelf -lW "$library" | grep -q GNU_RELRO
  readelf -dW "$library" | grep -q 'FLAGS.*BIND_NOW'
  none grep -q TEXTREL <<< "$(readelf -dW "$library")"
}

@test "no segment is writable and executable, and the stack is not executable" {
  none grep -Eq '^ *(LOAD|GNU_STACK) .* RWE ' <<< "$(readelf -lW "$library")"
  readelf -lW "$library" | grep GNU_STACK | grep -q ' RW '
}

@test "what each launch reads of the process is one cache line (capture/system/hot.h)" {
  read -r size alignment <<< "$(readelf -SW "$library" | awk '{for (i = 1; i < NF; i++) if ($i == "ag_hot") print $(i + 4), $NF}')"
  echo "$size (hexadecimal) bytes, aligned to $alignment"
  [ $((16#$size)) -le 64 ]
  [ "$alignment" -eq 64 ]
}

# The linker puts what is marked as hot in front of all other code, which begins with the compiler's own.
@test "what each launch runs lies together (docs/fast-path.md, rule 12)" {
  nm "$library" | awk '
    {at[$3] = $1}
    END {
      split("cuLaunchKernel ag_core_cuLaunchKernel ag_core_launch ag_stream_get ag_record_launch ag_policy_run_end ag_engine_chunk_done ag_submitter_hand ag_ring_put", names)
      for (i in names) {
        print names[i], at[names[i]], at["deregister_tm_clones"]
        if (at[names[i]] == "" || at[names[i]] "" >= at["deregister_tm_clones"] "") # as words: 1e3 is no number here
          apart = 1
      }
      exit apart
    }'
}

@test "thread-local storage is initial-exec and under 1 KB" {
  size=$(readelf -lW "$library" | awk '$1 == "TLS" {print $6}')
  echo "bytes: $size"
  [ -n "$size" ]
  [ $((size)) -lt 1024 ]
  none grep -q __tls_get_addr <<< "$(nm -D "$library")"
  none grep -Eq 'TLSDESC|DTPMOD|DTPOFF' <<< "$(readelf -rW "$library")"
}

# But for __gmon_start__ (link.c), which looks whether a driver has been loaded.
@test "no constructor" {
  # Compiler start-up code alone: frame_dummy.
  [ "$(readelf -SW "$library" | grep -c '\.ctors')" -eq 0 ]
  size=$(readelf -SW "$library" | sed -n 's/.*\.init_array *INIT_ARRAY *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\).*/\1/p')
  [ $((16#$size)) -eq 8 ]
}

@test "the stack is guarded where arrays are on it, and no function that cannot be used safely is imported" {
  nm -D --undefined-only "$library" | grep -q __stack_chk_fail
  none grep -Eq ' (gets|strcpy|strcat|sprintf|vsprintf|mktemp|tmpnam|system|popen)(@|$)' <<< "$(nm -D --undefined-only "$library")"
}
