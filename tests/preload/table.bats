#!/usr/bin/env bats
# The table of entry points: the generator, its output, and the other architecture's assembly.

setup() {
  : "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}" "${AG_CUDA_INCLUDE_DIR:=/usr/local/cuda/include}"
  cuda="${AG_CUDA_INCLUDE_DIR%/include}"
  copy="$BATS_TEST_TMPDIR/driver"
}

# What is generated comes from CUDA 13.0 with its stub library: another toolkit has other symbols.
needs_13_0() {
  grep -q '^#define CUDA_VERSION 13000' "$AG_CUDA_INCLUDE_DIR/cuda.h" || skip "the toolkit is not CUDA 13.0"
  compgen -G "$cuda/*/stubs/libcuda.so" || compgen -G "$cuda/targets/*/lib/stubs/libcuda.so" ||
    skip "the toolkit has no stub library of the driver"
}

copy_table() {
  mkdir "$copy"
  cp "$AG_SOURCE"/driver/{gen_entries.py,entries.tbl,newer.h,typed.txt} "$copy"
}

generate() {
  python3 "$copy/gen_entries.py" --cuda "$cuda" --out "$BATS_TEST_TMPDIR/out"
}

@test "what is committed is what the generator makes" {
  needs_13_0
  copy_table
  generate
  diff -r "$AG_SOURCE/driver/generated" "$BATS_TEST_TMPDIR/out"
}

@test "the table has all that the toolkit exports, and all of newer.h" {
  needs_13_0
  sed -n 's/^    AG_SYM_\(cu[^,]*\),$/\1/p' "$AG_SOURCE/driver/generated/entries_enum.h" | sort > "$BATS_TEST_TMPDIR/has"
  { nm -D --defined-only "$cuda/lib64/stubs/libcuda.so" | awk '{print $3}'
    grep -o '^CUresult cu[A-Za-z0-9_]*' "$AG_SOURCE/driver/newer.h" | awk '{print $2}'; } | sort -u > "$BATS_TEST_TMPDIR/exported"
  grep -qx cuStreamBeginRecaptureToGraph "$BATS_TEST_TMPDIR/exported"
  diff "$BATS_TEST_TMPDIR/has" "$BATS_TEST_TMPDIR/exported"
}

@test "a symbol without a class is an error" {
  needs_13_0
  copy_table
  sed -i '/^cuMemFreeAsync /d' "$copy/entries.tbl"
  run generate
  [ "$status" -ne 0 ]
  [[ "$output" == *"no line for cuMemFreeAsync"* ]]
}

@test "a line without a symbol is an error" {
  needs_13_0
  copy_table
  echo 'cuNoSuchCall BARRIER' >> "$copy/entries.tbl"
  run generate
  [ "$status" -ne 0 ]
  [[ "$output" == *"cuNoSuchCall is no exported base name"* ]]
}

@test "a class that ignores a stream is an error" {
  needs_13_0
  copy_table
  sed -i 's/^cuMemFreeAsync .*/cuMemFreeAsync PASS/' "$copy/entries.tbl"
  run generate
  [ "$status" -ne 0 ]
  [[ "$output" == *"cuMemFreeAsync takes a stream that class PASS ignores"* ]]
}

@test "an op or stream barrier without a stream is an error" {
  needs_13_0
  copy_table
  sed -i 's/^cuMemAlloc .*/cuMemAlloc STREAM_BARRIER/' "$copy/entries.tbl"
  run generate
  [ "$status" -ne 0 ]
  [[ "$output" == *"has no stream argument"* ]]
}

@test "unknown classes and flags are errors" {
  needs_13_0
  copy_table
  echo 'cuInit MAYBE' >> "$copy/entries.tbl"
  sed -i 's/^cuMemAlloc .*/cuMemAlloc BARRIER perhaps/' "$copy/entries.tbl"
  run generate
  [ "$status" -ne 0 ]
  [[ "$output" == *"no class on this line: cuInit MAYBE"* ]]
  [[ "$output" == *"unknown flag perhaps"* ]]
}

@test "the aarch64 assembly assembles" {
  compiler=aarch64-linux-gnu-gcc
  command -v $compiler || skip "$compiler is not installed (Debian: gcc-aarch64-linux-gnu)"
  for part in dlsym stubs; do
    $compiler -Wa,--fatal-warnings -I "$AG_SOURCE" -c "$AG_SOURCE/preload/${part}_aarch64.S" \
      -o "$BATS_TEST_TMPDIR/$part.o"
  done
  # As many entry points as on x86-64, each with the branch target that hardware may demand.
  stubs=$(grep -c '^AG_STUB' "$AG_SOURCE/driver/generated/stubs.inc")
  [ "$(aarch64-linux-gnu-nm "$BATS_TEST_TMPDIR/stubs.o" | grep -c ' T cu')" -eq "$stubs" ]
}

@test "the library links for aarch64" {
  compiler=aarch64-linux-gnu-gcc
  command -v $compiler || skip "$compiler is not installed (Debian: gcc-aarch64-linux-gnu)"
  echo '#include <dlfcn.h>' | $compiler -E - > /dev/null || skip "no C library for aarch64 (Debian: libc6-dev-arm64-cross)"
  library="$BATS_TEST_TMPDIR/libautograph.so"
  $compiler -shared -fPIC -O1 -fvisibility=hidden -ftls-model=initial-exec -Wall -Wextra -Werror \
    -I "$AG_SOURCE" -isystem "$AG_CUDA_INCLUDE_DIR" -o "$library" \
    "$AG_SOURCE"/preload/*.c "$AG_SOURCE"/driver/*.c "$AG_SOURCE"/driver/generated/*.c "$AG_SOURCE"/preload/*_aarch64.S \
    "$AG_SOURCE/tests/preload/fake_capture.c" "$AG_SOURCE/capture/system/lock.c" -Wl,-z,defs -Wl,-Bsymbolic \
    -Wl,--version-script="$AG_SOURCE/preload/exports.map"
  exported=$(aarch64-linux-gnu-nm -D --defined-only "$library" | grep -c ' T ')
  [ "$exported" -eq "$(grep -c '^    [a-z_].*;$' "$AG_SOURCE/preload/exports.map")" ]
  # Tables of addresses are relocated relative to the library: nothing can be put in their place.
  [ "$(aarch64-linux-gnu-readelf -rW "$library" | grep -c 'R_AARCH64_ABS64')" -eq 0 ]
}
