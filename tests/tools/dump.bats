#!/usr/bin/env bats
# Dumps: what the library writes, what it refuses to write over, and what becomes of damage. Tests of the command alone have
# the tag `reads`.

load common.bash

setup() {
    dump=$BATS_TEST_TMPDIR/dump
    cd "$BATS_TEST_TMPDIR" || return 1
}

teardown() { # a test that failed half way leaves nothing mounted
    ! mountpoint -q "$BATS_TEST_TMPDIR/dump.disk" || umount "$BATS_TEST_TMPDIR/dump.disk"
}

@test "a dump holds every launch that the library counted" {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump AUTOGRAPH_STATS=1 AUTOGRAPH_TEST_BUILD=inline \
        run "$AG_BUILD/examples/loop_driver" --steps=100 --reps=2
    [ "$status" -eq 0 ]
    counted=$(echo "$output" | sed -n 's/.*replayed \([0-9]*\) of \([0-9]*\) ops.*/\1 \2/p')
    [ -n "$counted" ]
    autograph report "$dump" -f json | holds "[(r['count']) for r in d['launches']][0] == ${counted#* }"
    autograph report "$dump" -f json |
        holds "sum(r['count'] for r in d['launches'] if 'graphs' in r['launches']) == ${counted% *}"
    autograph report "$dump" -f json |
        holds "sum(r['count'] for r in d['launches'][1:]) == d['launches'][0]['count']"
}

@test "the summary names the dump and the next command" {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump AUTOGRAPH_STATS=1 \
        run "$AG_BUILD/examples/loop_driver" --steps=5 --reps=1
    [[ "$output" == *"autograph report $dump"* ]]
    # typed as it stands it works, whatever the name
    for name in "my run's \$dump" -f.agdump é.agdump; do
        LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$name AUTOGRAPH_STATS=1 \
            run "$AG_BUILD/examples/loop_driver" --steps=5 --reps=1
        [ -e "./$name" ]
        eval "${output##*look at it with: } -t launches"
    done
}

@test "many threads, and children of fork: every launch is there, once, in its thread" {
    made=$(LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump "$AG_BUILD/tests/tools/tools_threads")
    autograph report "$dump" -n 0 -f json > report.json
    holds "d['launches'][0]['count'] == $made" < report.json
    holds "len(d['streams']) == 24 and all(r['launches'] == 2000 for r in d['streams'])" < report.json
    [ -z "$(autograph report "$dump" 2>&1 >/dev/null)" ] # whole, ended orderly, nothing lost
    autograph timeline "$dump" | holds "len({x['tid'] for x in d['traceEvents'] if x['name'] == 'cuMemsetD32Async'}) == 24"
}

@test "tracing changes no result and no output" {
    plain=$(LD_PRELOAD="$PRELOAD" "$AG_BUILD/examples/heat_driver" 2>&1 | grep -o 'checksum.*')
    with=$(traced "$dump" heat_driver 2>&1 | grep -o 'checksum.*')
    [ -n "$plain" ]
    [ "$plain" = "$with" ]
    [ "$(traced "$dump" heat_driver 2>&1 | wc -l)" -eq "$("$AG_BUILD/examples/heat_driver" 2>&1 | wc -l)" ]
}

@test "%p, %h and %e in the name" {
    traced "$BATS_TEST_TMPDIR/%e.%h.%p.dump" loop_driver --steps=5 --reps=1
    [ -s "$BATS_TEST_TMPDIR"/loop_driver."$(hostname)".[0-9]*.dump ]
}

@test "an old dump is replaced, anything else is left alone" {
    traced "$dump" loop_driver --steps=200 --reps=2
    traced "$dump" loop_driver --steps=5 --reps=1
    autograph report "$dump" -f json | holds "d['launches'][0]['count'] < 1000"
    echo precious > "$dump.txt"
    run traced "$dump.txt" loop_driver --steps=5 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"autograph: AUTOGRAPH_TRACE: cannot write $dump.txt: it is there already, and not a dump; going on without"* ]]
    [ "$(cat "$dump.txt")" = precious ]
}

@test "a process that has launched nothing replaces no dump of another" {
    traced "$dump" loop_driver --steps=5 --reps=1
    cp "$dump" "$dump.before"
    run env LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$dump" "$AG_BUILD/tests/command/command_cases" none
    [[ "$output" == *"autograph: AUTOGRAPH_TRACE: cannot write $dump: it is there already, and this process has launched nothing; going on without"* ]]
    cmp "$dump" "$dump.before"
    run env LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$dump.none" "$AG_BUILD/tests/command/command_cases" none
    autograph report "$dump.none" -f json | holds "d['launches'][0]['count'] == 0"
}

@test "symbolic links are not followed: not as the file, not in a folder that others can write to" {
    traced "$dump" loop_driver --steps=5 --reps=1
    before=$(stat -c %Y.%s "$dump")
    ln -s "$dump" "$dump.link"
    run traced "$dump.link" loop_driver --steps=5 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"cannot write $dump.link: it is a symbolic link"* ]]
    mkdir -m 1777 "$BATS_TEST_TMPDIR/shared"
    mkdir "$BATS_TEST_TMPDIR/mine"
    ln -s ../mine "$BATS_TEST_TMPDIR/shared/in"
    run traced "$BATS_TEST_TMPDIR/shared/in/dump" loop_driver --steps=5 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"a symbolic link in a folder that others can write to"* ]]
    [ -z "$(ls "$BATS_TEST_TMPDIR/mine")" ]
    ln -s mine "$BATS_TEST_TMPDIR/own" # nobody else could have put this one there
    traced "$BATS_TEST_TMPDIR/own/dump" loop_driver --steps=5 --reps=1
    [ -s "$BATS_TEST_TMPDIR/mine/dump" ]
    [ "$before" = "$(stat -c %Y.%s "$dump")" ]
}

@test "a folder, a pipe, a second name, a path that is not there: one line, and the program goes on" {
    mkdir "$dump.d"
    mkfifo "$dump.fifo"
    traced "$dump.one" loop_driver --steps=5 --reps=1
    ln "$dump.one" "$dump.two"
    for path in "$dump.d" "$dump.fifo" "$dump.two" "$BATS_TEST_TMPDIR/no/where"; do
        run timeout 120 env LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$path" \
            "$AG_BUILD/examples/loop_driver" --steps=5 --reps=1
        [ "$status" -eq 0 ]
        [ "$(grep -c '^autograph: ' <<<"$output")" -eq 1 ]
        [[ "$output" == *"cannot write $path: "* ]]
    done
}

@test "a full disk: one line, and what was written can be read" {
    [ "$(id -u)" -eq 0 ] || skip "mounting needs root"
    mkdir "$dump.disk"
    mount -t tmpfs -o size=256k tmpfs "$dump.disk" || skip "no mounting here"
    run traced "$dump.disk/dump" loop_driver --steps=2000 --reps=2
    cp "$dump.disk/dump" "$dump"
    umount "$dump.disk"
    echo "status $status: $output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^autograph: ' <<<"$output")" -eq 1 ]
    [[ "$output" == *"No space left on device"* ]]
    run autograph report "$dump"
    [ "$status" -eq 0 ]
    [[ "$output" == *"loop_driver"* ]]
    [[ "$output" == *"or could not write more"* ]]
}

@test "AUTOGRAPH_TRACE_MB bounds the file" {
    AUTOGRAPH_TRACE_MB=1 run traced "$dump" loop_driver --steps=3000 --reps=2
    [ "$status" -eq 0 ]
    [[ "$output" == *"has reached AUTOGRAPH_TRACE_MB (1 MiB)"* ]]
    [ "$(stat -c %s "$dump")" -le 1048576 ]
    run autograph report "$dump"
    [ "$status" -eq 0 ]
    [[ "$output" == *"full (AUTOGRAPH_TRACE_MB)"* ]]
}

@test "a limit of the system on file sizes does not kill the program" {
    mkfifo "$dump.pace"
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump "$AG_BUILD/examples/loop_driver" --paced --reps=1 --steps=2000 \
        <"$dump.pace" >"$dump.out" 3>&- &
    exec 8>"$dump.pace"
    wait_until grep -q READY "$dump.out" # the simulated driver has got its memory by then, which is a file as well
    prlimit --pid $! --fsize=65536
    echo >&8
    exec 8>&-
    wait $!
    autograph report "$dump" > /dev/null
}

@test "a process that is killed leaves a dump that can be read" {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 3>&- &
    wait_until larger "$dump" 200000 || true # a dump too small is told below, the process ended
    kill -9 $!
    wait $! || true
    larger "$dump" 200000
    run autograph report "$dump"
    [ "$status" -eq 0 ]
    [[ "$output" == *"did not end orderly"* ]]
    [[ "$output" == *"short_kernel"* ]]
}

@test "a program without standard files does not write into the dump, nor into the log" {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump "$AG_BUILD/examples/loop_driver" --steps=100 --reps=1 <&- >&- 2>&-
    autograph report "$dump" > /dev/null
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_STATS=1 AUTOGRAPH_LOG=info AUTOGRAPH_LOG_FILE=$dump.log \
        "$AG_BUILD/examples/loop_driver" --steps=100 --reps=1 <&- >&- 2>&-
    grep 'replayed' "$dump.log"
    no grep RESULT "$dump.log"
}

@test "two processes do not write one dump" {
    mkfifo "$dump.pace"
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$dump "$AG_BUILD/examples/loop_driver" --paced --reps=1 --steps=5 \
        <"$dump.pace" >/dev/null 3>&- &
    exec 8>"$dump.pace"
    wait_until larger "$dump" 0
    run traced "$dump" loop_driver --steps=5 --reps=1
    [ "$status" -eq 0 ]
    [[ "$output" != *autograph* ]]
    echo >&8
    exec 8>&-
    wait $!
    autograph report "$dump" > /dev/null
    autograph report "$dump".[0-9]* > /dev/null # the other's has its pid in the name
}

# bats test_tags=reads
@test "a dump cut at every byte, and with every byte damaged" {
    hostile=$AG_BUILD/tests/tools/tools_hostile
    [ -x "$hostile" ] || skip "not in this build"
    traced "$dump" loop_driver --steps=3 --reps=1
    run "$hostile" "$dump"
    echo "$output"
    [ "$status" -eq 0 ]
}

# bats test_tags=reads
@test "every verb lives through damaged dumps" {
    traced "$dump" heat_driver --reps=1 --most-steps=100
    size=$(stat -c %s "$dump")
    for at in 0 7 40 60 100 1000 $((size / 2)) $((size - 40)); do
        cp "$dump" "$dump.bad"
        printf '\xff\xff\xff' | dd of="$dump.bad" bs=1 seek="$at" conv=notrunc status=none
        head -c "$at" "$dump" > "$dump.cut"
        for verb in report timeline graphs html replay; do
            for file in "$dump.bad" "$dump.cut"; do
                run timeout 120 "$AG_COMMAND" "$verb" "$file" -o "$dump.out"
                [ "$status" -le 1 ]
            done
        done
        run timeout 120 "$AG_COMMAND" diff "$dump" "$dump.bad"
        [ "$status" -le 1 ]
    done
}

# bats test_tags=reads
@test "every verb lives through nonsense with good checksums" {
    traced "$dump" heat_driver --reps=1 --most-steps=100
    cat > nonsense.py <<'PY'
import random, struct, sys, zlib
random.seed(int(sys.argv[3]))
b = open(sys.argv[1], "rb").read()
out, at = b[:48], 48
while at + 16 <= len(b):
    mark, typ, n, _ = struct.unpack("<4s4sII", b[at:at + 16])
    p = bytearray(b[at + 16:at + 16 + n])
    for _ in range(random.randrange(6)):
        if p:
            p[random.randrange(len(p))] = random.choice((0, 1, 255, random.randrange(256)))
    out += mark + typ + struct.pack("<II", len(p), zlib.crc32(typ + struct.pack("<I", len(p)) + p)) + p + b"\0" * (-len(p) % 8)
    at += 16 + (n + 7 & ~7)
open(sys.argv[2], "wb").write(out)
PY
    for seed in 1 2 3 4 5; do
        python3 nonsense.py "$dump" "$dump.bad" $seed
        for verb in report timeline graphs "graphs -f csv" html replay "replay --memory-mb=1" "diff $dump"; do
            run timeout 120 "$AG_COMMAND" $verb "$dump.bad" -o "$dump.out"
            [ "$status" -le 1 ]
        done
    done
}

# bats test_tags=reads
@test "a text that is not a dump is refused in one line" {
    echo hello > "$dump"
    for verb in report timeline graphs html replay; do
        run autograph "$verb" "$dump"
        [ "$status" -eq 1 ]
        [ "$output" = "autograph: cannot read $dump: it is not a dump of libautograph" ]
    done
    : > "$dump" # as on a disk that was full at once
    run autograph report "$dump"
    [ "$status" -eq 1 ]
    [ "$output" = "autograph: cannot read $dump: it is empty" ]
}

# bats test_tags=reads
@test "texts of a dump cannot speak to the terminal or to the browser" {
    traced "$dump" loop_driver --steps=6 --reps=1
    python3 - "$dump" <<'PY'
import struct, sys, zlib
b = open(sys.argv[1], "rb").read()
evil = b"\x1b]0;owned\x07<script>alert(1)</script>"
out, at = b[:48], 48
while at < len(b):
    mark, typ, n, crc = struct.unpack("<4s4sII", b[at:at + 16])
    p = b[at + 16:at + 16 + n]
    if typ == b"STRG" and p[8:] == b"short_kernel":
        p = struct.pack("<II", struct.unpack("<I", p[:4])[0], len(evil)) + evil
    out += mark + typ + struct.pack("<II", len(p), zlib.crc32(typ + struct.pack("<I", len(p)) + p)) + p
    out += b"\0" * (-len(p) % 8)
    at += 16 + (n + 7 & ~7)
open(sys.argv[1], "wb").write(out)
PY
    autograph report "$dump" > "$dump.txt"
    grep -q 'owned' "$dump.txt"
    no grep -q $'\x1b' "$dump.txt"
    autograph html "$dump" > "$dump.html"
    grep -q 'owned' "$dump.html"
    no grep -q '<script' "$dump.html"
}

@test "a traced launch costs under 100 ns more" {
    ! nm -D "$AG_LIBRARY" | grep -q ' U __[at]san' || skip "a sanitized build says nothing about cost"
    cost=$AG_BUILD/tests/tools/tools_cost
    export SIMCUDA_MODE=inline LD_PRELOAD=$PRELOAD
    least=100000
    for _ in $(seq 20); do # whoever else runs here makes it look dearer; the library never gets cheaper by itself
        plain=$("$cost") with=$(AUTOGRAPH_TRACE=$dump "$cost")
        extra=$(python3 -c "print(int($with - $plain))")
        [ "$extra" -lt "$least" ] && least=$extra
        [ "$least" -lt 100 ] && break
    done
    unset LD_PRELOAD
    echo "least $least ns"
    [ "$least" -lt 100 ]
}

# bats test_tags=reads
@test "the second half of a large dump takes no more work than the first, and memory is bounded" {
    for mib in 4 18 32; do
        "$AG_BUILD/tests/tools/tools_large" "$dump.$mib" "$mib"
    done
    cat > measure.py <<'PY'
import os, subprocess, sys
command, counted, dump = sys.argv[1:4]

def peak_mib(*args):
    pid = os.fork()
    if pid == 0:
        os.execv(args[0], [*args, "-o", "/dev/null"])
    _, status, used = os.wait4(pid, 0)
    assert status == 0, (args, status)
    return used.ru_maxrss / 1024

for verb in (["report"], ["html"], ["timeline"], ["replay"], ["graphs"], ["diff", dump + ".4"]):
    if not os.path.exists(counted): # a sanitized build says nothing about cost: it looks for faults alone
        subprocess.run([command, *verb, dump + ".4", "-o", "/dev/null"], check=True)
        continue
    work = {}
    for mib in (4, 18, 32): # what each dump begins with is in the first
        os.environ["AG_COUNTED_FILE"] = f"{dump}.work"
        peak_mib(counted, *verb, f"{dump}.{mib}")
        work[mib] = int(open(f"{dump}.work").read())
    peak = peak_mib(command, *verb, dump + ".32")
    print(verb[0], work, round(peak))
    assert work[32] - work[18] < 1.2 * (work[18] - work[4]), (verb, work)
    assert peak < 4 * 32 + 32, (verb, peak)
PY
    python3 measure.py "$AG_COMMAND" "$AG_BUILD/tests/tools/tools_counted" "$dump"
    autograph report "$dump.4" -f json | holds "d['launches'][1]['share_percent'] == 100 and len(d['streams']) == 64"
}

# bats test_tags=reads
@test "a dump that contradicts itself: no share over 100 %, one line, status 1" {
    traced "$dump" loop_driver --steps=200 --reps=1
    for verb in report html graphs "diff $dump"; do autograph $verb "$dump" -o "$dump.out"; done
    python3 - "$dump" "$dump.bad" <<'PY'
import struct, sys, zlib
b = open(sys.argv[1], "rb").read()
out, at = b[:48], 48
while at + 16 <= len(b):
    mark, typ, n, _ = struct.unpack("<4s4sII", b[at:at + 16])
    p = bytearray(b[at + 16:at + 16 + n])
    if typ == b"EVTS": # two thirds of the ops become something that nobody knows
        for k, i in enumerate(i for i in range(8, len(p), 32) if p[i + 8] == 1):
            if k % 3:
                p[i + 8] = 99
    out += mark + typ + struct.pack("<II", len(p), zlib.crc32(typ + struct.pack("<I", len(p)) + p)) + p + b"\0" * (-len(p) % 8)
    at += 16 + (n + 7 & ~7)
open(sys.argv[2], "wb").write(out)
PY
    for verb in report html graphs "diff $dump"; do
        run autograph $verb "$dump.bad" -o "$dump.out"
        [ "$status" -eq 1 ]
        [[ "$output" == *"its figures contradict each other"* ]]
    done
    autograph report "$dump.bad" -f json > report.json || true
    holds "all(v <= 100 for t in d.values() for r in t for k, v in r.items() if '(%)' in k)" < report.json
    # a full disk or a kill: the same without its end, so the ops may be missing that its graphs carried
    python3 - "$dump.bad" "$dump.cut" <<'PY'
import sys
b = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(b[:b.rindex(b"AGckEND ")])
PY
    for verb in report html graphs "diff $dump"; do
        run autograph $verb "$dump.cut" -o "$dump.out"
        [ "$status" -eq 0 ]
        [[ "$output" == *"did not end orderly"* ]]
        [[ "$output" != *"contradict"* ]]
    done
    autograph report "$dump.cut" -f json > report.json
    holds "all(v <= 100 for t in d.values() for r in t for k, v in r.items() if '(%)' in k)" < report.json
    # bytes that had to be skipped
    cp "$dump" "$dump.hole"
    printf '\xff\xff' | dd of="$dump.hole" bs=1 seek=$(($(stat -c %s "$dump") / 2)) conv=notrunc status=none
    for verb in report html graphs timeline replay "diff $dump"; do
        run autograph $verb "$dump.hole" -o "$dump.out"
        [ "$status" -eq 1 ]
        [[ "$output" == *"damaged: "* ]]
    done
}

# bats test_tags=reads
@test "bytes behind the end of a dump are damage, not a cut" {
    traced "$dump" loop_driver --steps=20 --reps=1
    { cat "$dump"; echo more; } > "$dump.more"
    run autograph report "$dump.more"
    [ "$status" -eq 1 ]
    [[ "$output" == *"damaged: 5 bytes were skipped"* ]]
    [[ "$output" != *"cut: "* ]]
}

# bats test_tags=reads
@test "a folder is called a folder, a pipe a pipe" {
    mkdir "$dump.d"
    run bash -c '"$0" report <(echo)' "$AG_COMMAND" # as for a dump that was compressed
    [ "$status" -eq 1 ]
    [[ "$output" == "autograph: cannot read /dev/fd/"*": it is a pipe or a device, and no file" ]]
    for verb in report timeline graphs html replay; do
        run autograph $verb "$dump.d"
        [ "$status" -eq 1 ]
        [ "$output" = "autograph: cannot read $dump.d: it is a folder" ]
    done
}

# bats test_tags=reads
@test "a full disk leaves no part of a file behind" {
    [ "$(id -u)" -eq 0 ] || skip "mounting needs root"
    traced "$dump" loop_driver --steps=400 --reps=1
    mkdir "$dump.disk"
    mount -t tmpfs -o size=8k tmpfs "$dump.disk" || skip "no mounting here"
    head -c 8192 /dev/zero > "$dump.disk/other" || true
    for out in "report x" "html x.html" "timeline x.json" "timeline x.json.gz" "graphs x.dot" "graphs x.svg" "graphs x.png" "report x.json" "replay x.json"; do
        run autograph ${out% *} "$dump" -o "$dump.disk/${out#* }"
        left=$(ls "$dump.disk")
        echo "$out: $status, left $left, $output"
        [ "$status" -eq 1 ] && [ "$left" = other ] && [[ "$output" == *"autograph: "* ]] || { umount "$dump.disk"; false; }
    done
    umount "$dump.disk"
    # what is no file of ours is not taken away
    run autograph report "$dump" -o /dev/full
    [ "$status" -eq 1 ]
    [ -c /dev/full ]
}

# bats test_tags=reads
@test "graphs: drawn as the name's end says" {
    command -v dot >/dev/null || skip "Graphviz is not installed"
    traced "$dump" loop_driver --steps=20 --reps=1
    for end in svg png pdf; do
        autograph graphs "$dump" -o "drawn.$end"
    done
    grep -q '<svg' drawn.svg
    [ "$(head -c 4 drawn.png | tail -c 3)" = PNG ]
    [ "$(head -c 4 drawn.pdf)" = %PDF ]
}
