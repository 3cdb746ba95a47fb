#!/usr/bin/env bats
# Running programs, live figures, variables, and the doctor.

bats_require_minimum_version 1.5.0
load common.bash

@test "the program's output, status and signals are its own" {
    run autograph -q sh -c 'echo out; exit 7'
    [ "$status" -eq 7 ]
    [ "$output" = out ]
    run autograph -q sh -c 'kill -USR1 $$'
    [ "$status" -eq $((128 + $(kill -l USR1))) ]
    [ "$(echo input | autograph -q cat)" = input ]
    run autograph run -q sh -c 'echo "$#" "$@"' name --help -q
    [ "$output" = "2 --help -q" ]
}

@test "a program that is not there, or is none" {
    run -127 autograph nothing-there
    [ "$output" = "autograph: cannot run nothing-there: No such file or directory" ]
    : > "$BATS_TEST_TMPDIR/empty"
    run autograph "$BATS_TEST_TMPDIR/empty"
    [ "$status" -eq 126 ]
}

@test "LD_PRELOAD is added to, once" {
    run autograph -q sh -c 'echo "$LD_PRELOAD"'
    [[ "$output" == /*/libautograph.so ]]
    own=$output
    LD_PRELOAD=libc.so.6 run autograph -q sh -c 'echo "$LD_PRELOAD"'
    [ "$output" = "libc.so.6:$own" ]
    run autograph -q "$AG_COMMAND" -q sh -c 'echo "$LD_PRELOAD"'
    [ "$output" = "$own" ]
}

@test "options set variables" {
    run autograph -t 'x.%p' -e MAX_DEFER_US=50 -e AUTOGRAPH_TEST_CHUNK=4 env
    [[ "$output" == *"AUTOGRAPH_TRACE=x.%p"* ]]
    [[ "$output" == *"AUTOGRAPH_MAX_DEFER_US=50"* ]]
    [[ "$output" == *"AUTOGRAPH_TEST_CHUNK=4"* ]]
    [[ "$output" == *"AUTOGRAPH_STATS=1"* ]]
    run autograph -e nonsense env
    [ "$status" -eq 2 ]
    run autograph --library=/nowhere.so env
    [ "$status" -eq 1 ]
}

@test "a program is run, with a summary at the end" {
    run autograph "$AG_BUILD/examples/loop_driver" --steps=50 --reps=2
    [ "$status" -eq 0 ]
    [[ "$output" == *"check=ok"* ]]
    [[ "$output" == *": replayed "* ]]
    [[ "$output" == *"autograph --trace=FILE PROGRAM writes a dump, autograph report FILE explains it" ]] # the next command
    [ "$(grep -c 'explains it' <<<"$output")" -eq 1 ]
}

@test "without -q too the program's output, status and signals are its own" {
    run autograph sh -c 'echo out; exit 7'
    [ "$status" -eq 7 ]
    [ "$output" = "out
autograph: sh: no CUDA launch was seen from here (\`autograph doctor PROGRAM\` may say why; in a container or on another node put autograph before the program)" ]
    run autograph sh -c 'kill -USR1 $$'
    [ "$status" -eq $((128 + $(kill -l USR1))) ]
    [ "$(echo input | autograph cat 2>/dev/null)" = input ]
    run -127 autograph nothing-there
    [ "$output" = "autograph: cannot run nothing-there: No such file or directory" ]
    AUTOGRAPH=0 run autograph sh -c 'exit 5'
    [ "$status" -eq 5 ]
    [ -z "$output" ]
    for asked in --compare --trace="$BATS_TEST_TMPDIR/dump"; do # which nobody will get
        AUTOGRAPH=0 run autograph $asked sh -c 'exit 5'
        [ "$status" -eq 5 ]
        [[ "$output" == "autograph: AUTOGRAPH is off (\`autograph env sh\` says where that is set): there "* ]]
    done
    run bash -c 'ulimit -f 8; "$0" sh -c "exit 6"' "$AG_COMMAND" # the file of figures would be over the limit
    [ "$status" -eq 6 ]
    # signals go on to it
    for signal in INT QUIT TERM HUP USR1 USR2 XCPU; do
        run timeout 60 python3 - "$AG_COMMAND" $signal <<'PY'
import signal, subprocess, sys
command, name = sys.argv[1:]
number = getattr(signal, "SIG" + name)
signal.signal(number, signal.SIG_DFL) # whatever it was for the tests: a shell leaves alone what is ignored
p = subprocess.Popen([command, "sh", "-c", f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.1; done"],
                     stdout=subprocess.PIPE, text=True)
assert p.stdout.readline() == "ready\n"
p.send_signal(number)
assert p.stdout.readline() == "got\n"
sys.exit(p.wait())
PY
        echo "$signal: $status $output"
        [ "$status" -eq 9 ]
    done
}

@test "a key of the terminal that interrupts comes to the program once" {
    run timeout 60 python3 - "$AG_COMMAND" <<'PY'
import os, pty, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
program = """
import signal, sys
awaited = {signal.SIGINT, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited) # or one could come between a look for signals and the wait
print("ready", flush=True)
while signal.sigwait(awaited) == signal.SIGINT:
    print("interrupted", flush=True)
sys.exit(5)
"""
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[1], [sys.argv[1], sys.executable, "-c", program])
said = b""
def until(what):
    global said
    while what not in said:
        said += os.read(terminal, 4096)
until(b"ready")
os.write(terminal, b"\x03")
until(b"interrupted")
os.kill(pid, signal.SIGUSR1) # goes on behind whatever else would
try:
    while True:
        said += os.read(terminal, 4096)
except OSError:
    pass
print(said)
assert said.count(b"interrupted") == 1
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
    echo "$output"
    [ "$status" -eq 5 ]
}

@test "whoever no longer reads what the command says changes no exit status" {
    for asked in -eSTATS=0 --observe; do
        run timeout 60 python3 - "$AG_COMMAND" $asked sh -c 'exit 6' <<'PY'
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.run(sys.argv[1:], stderr=writer).returncode % 256)
PY
        echo "$asked: $status $output"
        [ "$status" -eq 6 ]
    done
}

@test "what to do for more is said once: by rank 0, and not beside a file of messages" {
    for rank in "" 0 3; do
        RANK=$rank run autograph "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1
        echo "rank '$rank': $output"
        [ "$(grep -c '^autograph: for more: autograph --trace=FILE' <<<"$output")" -eq $((rank != 3)) ]
    done
    AUTOGRAPH_LOG_FILE=$BATS_TEST_TMPDIR/log run autograph "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1
    [[ "$output" != *autograph* ]]
    grep -q 'why not more' "$BATS_TEST_TMPDIR/log"
}

@test "a process that ends by _exit or a signal: the command says so, with its last figures" {
    export AUTOGRAPH_TEST_BUILD=inline # or there may be nothing to replay yet
    run autograph "$AG_BUILD/tests/command/command_cases" leaves 60
    [ "$status" -eq 3 ]
    [[ "$output" =~ "command_cases["[0-9]+"]: ended by _exit, exec or a signal, before it could print a summary; when it was last looked at it had replayed "[1-9][0-9]*" of 12"[0-9]+" ops" ]]
    "$AG_COMMAND" "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    wait_until pgrep -P $! loop_driver
    program=$(pgrep -P $! loop_driver)
    run python3 - "$AG_COMMAND" "$program" <<'PY'
import subprocess, sys, time
end = time.monotonic() + 60
while "replayed by graphs" not in (out := subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "1", "-d", "0.1"], capture_output=True, text=True).stdout) \
        or " 0 launches" in out:
    assert time.monotonic() < end
PY
    [ "$status" -eq 0 ] # the live figures of a process that the command runs
    kill -9 "$program"
    status=0
    wait $! || status=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq 137 ]
    grep -Eq "loop_driver\[$program\]: ended by signal 9 \(Killed\), before it could print a summary; .* replayed [1-9][0-9]* of" "$BATS_TEST_TMPDIR/out"
    SLURM_PROCID=5 run autograph "$AG_BUILD/tests/command/command_cases" leaves 60
    [[ "$output" =~ "command_cases["[0-9]+"] rank 5: ended by" ]]
    run autograph "$AG_BUILD/tests/command/command_cases" leaves-at-once 5
    [[ "$output" =~ "command_cases["[0-9]+"]: ended by _exit, exec or a signal, before it could" ]]
    [[ "$output" != *"no CUDA launch"* ]] # nobody knows
    SLURM_PROCID=5 run autograph true
    [[ "$output" == "autograph: true rank 5: no CUDA launch was seen"* ]]
    run autograph "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1 # nothing of the kind of one that ends well
    [[ "$output" != *"before it could"* ]]
}

@test "dumps of one command never overwrite each other: rank or pid joins the name" {
    cd "$BATS_TEST_TMPDIR"
    loop=$AG_BUILD/examples/loop_driver
    autograph --trace=a.agdump "$loop" --steps=5 --reps=1 2>/dev/null
    [ "$(ls ./*agdump)" = ./a.agdump ] # one process: the name as it is
    autograph --trace=b.agdump sh -c '"$0" --steps=5 --reps=1; "$0" --steps=9 --reps=1; "$0" --steps=12 --reps=1 & wait' "$loop" >out 2>&1
    ls
    [ "$(ls b.agdump b.[0-9]*.agdump | wc -l)" -eq 3 ]
    local ranks=() # waited for by number: bats has a job of its own
    for rank in 0 1 2; do
        RANK=$rank LD_PRELOAD=$PRELOAD AUTOGRAPH_TRACE=c.agdump "$loop" --steps=5 --reps=1 >/dev/null &
        ranks+=($!)
    done
    wait "${ranks[@]}"
    [ "$(ls c.*)" = "c.rank0.agdump
c.rank1.agdump
c.rank2.agdump" ]
    SLURM_PROCID=4 LD_PRELOAD=$PRELOAD AUTOGRAPH_TRACE=d.%r.%e "$loop" --steps=5 --reps=1 >/dev/null
    [ -s d.4.loop_driver ]
    for dump in b*.agdump c*.agdump; do autograph report "$dump" >/dev/null; done
}

@test "--compare: the summary says what replay gains" {
    run autograph --compare=5 -e TEST_PROFIT=0 "$AG_BUILD/examples/loop_driver" --steps=4000 --reps=3
    [ "$status" -eq 0 ]
    [[ "$output" =~ "compared with eager: "[0-9.]+" times as fast" ]]
    [[ "$output" != *"there is little for graphs to do"* ]]
    run autograph -c env
    [[ "$output" == *"AUTOGRAPH_COMPARE_MS=50"* ]]
}

@test "--observe: says what would be gained, ends as the program, leaves nothing behind" {
    TMPDIR=$BATS_TEST_TMPDIR run autograph --observe "$AG_BUILD/examples/loop_driver" --steps=50 --reps=2
    [ "$status" -eq 0 ]
    [[ "$output" == *"under --observe"* ]]
    [[ "$output" == *"replayed by graphs"* ]]
    [ -z "$(ls "$BATS_TEST_TMPDIR")" ]
    TMPDIR=$BATS_TEST_TMPDIR run autograph --observe sh -c 'exit 5'
    [ "$status" -eq 5 ]
    [[ "$output" == *"no CUDA launch was seen"* ]]
    TMPDIR=$BATS_TEST_TMPDIR run autograph --observe sh -c 'kill -TERM $$'
    [ "$status" -eq 143 ]
}

@test "--observe: where nothing could be written, it does not say that nothing was launched" {
    [ "$(id -u)" -eq 0 ] || skip "mounting needs root"
    mkdir "$BATS_TEST_TMPDIR/disk"
    mount -t tmpfs -o size=8k tmpfs "$BATS_TEST_TMPDIR/disk" || skip "no mounting here"
    head -c 8192 /dev/zero > "$BATS_TEST_TMPDIR/disk/other" || true
    TMPDIR=$BATS_TEST_TMPDIR/disk run autograph --observe "$AG_BUILD/examples/loop_driver" --steps=20 --reps=1
    left=$(ls "$BATS_TEST_TMPDIR/disk")
    umount "$BATS_TEST_TMPDIR/disk"
    echo "$status, left $left, $output"
    [ "$status" -eq 1 ] && [ "$left" = other ]
    [[ "$output" == *"nothing of it came to $BATS_TEST_TMPDIR/disk before it ended"* ]]
    [[ "$output" != *"no CUDA launch was seen"* ]]
}

@test "--observe: as a table for programs" {
    autograph --observe -f json -o "$BATS_TEST_TMPDIR/told.json" "$AG_BUILD/examples/loop_driver" --steps=50 --reps=2
    holds "d['replay'][0]['count'] >= 2000 and d['cost']" < "$BATS_TEST_TMPDIR/told.json"
    # as of the other verbs: the file's name says which, and - is standard output
    cd "$BATS_TEST_TMPDIR"
    autograph --observe -o named.json "$AG_BUILD/examples/loop_driver" --steps=50 --reps=2
    holds "d['replay'][0]['count'] >= 2000 and d['cost']" < named.json
    autograph --observe -f csv -o - "$AG_BUILD/examples/loop_driver" --steps=50 --reps=2 | grep '^launches,'
    [ ! -e - ]
    run autograph --observe -f xml sh -c true
    [ "$status" -eq 2 ]
    # that is said before the program has run for hours
    run autograph --observe -o /nowhere/x sh -c 'echo ran'
    [ "$status" -eq 1 ]
    [ "$output" = "autograph: cannot write /nowhere/x: No such file or directory" ]
}

@test "top: live figures of a running program" {
    LD_PRELOAD="$PRELOAD" "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 3>&- &
    run python3 - "$AG_COMMAND" $! <<'PY'
import json, subprocess, sys, time
end = time.monotonic() + 60 # to start, and to get a share of the processor
while True:
    told = subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "3", "-d", "0.1", "-f", "jsonl"],
                          capture_output=True, text=True)
    rows = [json.loads(line) for line in told.stdout.splitlines()] if told.returncode == 0 else []
    rows = [r for r in rows if r["table"] == "live"]
    launches = [r for r in rows if r["what"] == "launches"]
    totals = [r["total"] for r in launches]
    carried = [r["total"] for r in rows if r["what"] == "replayed by graphs"]
    assert told.returncode or len(totals) == len(carried) == 3 and totals == sorted(totals), rows
    if totals and totals[2] > totals[0] > 0 and carried[2] > 0.9 * totals[2] and launches[2]["each_second"] > 1000:
        break
    assert time.monotonic() < end, (told, rows)
PY
    kill -9 $!
    wait $! || true
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "top: the screen is cleared where the terminal knows how" {
    LD_PRELOAD="$PRELOAD" "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 3>&- &
    wait_until autograph top $! -n 1 -d 0.01 > /dev/null
    TERM=xterm script -qec "'$AG_COMMAND' top $! -n 2 -d 0.01" /dev/null > "$BATS_TEST_TMPDIR/clever"
    TERM=dumb script -qec "'$AG_COMMAND' top $! -n 2 -d 0.01" /dev/null > "$BATS_TEST_TMPDIR/dumb"
    kill -9 $!
    wait $! || true
    [ "$(grep -c $'\e\\[H' "$BATS_TEST_TMPDIR/clever")" -eq 2 ]
    grep -q 'graph launches' "$BATS_TEST_TMPDIR/dumb"
    no grep $'\e' "$BATS_TEST_TMPDIR/dumb"
}

@test "top: processes without the library" {
    run autograph top $$
    [ "$status" -eq 1 ]
    [[ "$output" == *"does not run under libautograph"* ]]
    run autograph top 999999999
    [ "$status" -eq 1 ]
    run autograph top me
    [ "$status" -eq 2 ]
}

@test "top: nothing is left of a process, and a program that closes its files goes on" {
    before=$(ls /dev/shm | wc -l)
    LD_PRELOAD="$PRELOAD" run bash -c '"$0" --steps=5 --reps=1' "$AG_BUILD/examples/loop_driver"
    [ "$status" -eq 0 ]
    [ "$(ls /dev/shm | wc -l)" -eq "$before" ]
}

@test "env: every variable of the library's table" {
    autograph env -f json > "$BATS_TEST_TMPDIR/env.json"
    grep -o '"AUTOGRAPH[A-Z_]*"' "$AG_SOURCE/capture/settings/options.def" | tr -d '"' | sort > "$BATS_TEST_TMPDIR/table"
    python3 -c 'import json,sys; [print(r["variable"]) for r in json.load(sys.stdin)["variables"]]' \
        < "$BATS_TEST_TMPDIR/env.json" | sort | diff - "$BATS_TEST_TMPDIR/table"
    AUTOGRAPH_TEST_CHUNK=8 autograph env -f json |
        holds "[r for r in d['variables'] if r['variable'] == 'AUTOGRAPH_TEST_CHUNK'][0]['value'] == '8'"
}

@test "env: says what is wrong with the environment" {
    AUTOGRAPH_TEST_CHUNK=many run autograph env
    [[ "$output" == *"AUTOGRAPH_TEST_CHUNK=many is not one of 0..1024"* ]]
    AUTOGRAPH_TEST_CHUNKS=8 run autograph env
    [[ "$output" == *"did you mean AUTOGRAPH_TEST_CHUNK?"* ]]
}

finding() { # WHAT STATE ARGS...: the doctor's finding about WHAT is STATE
    local what=$1 state=$2
    shift 2
    autograph doctor "$@" -f json > "$BATS_TEST_TMPDIR/doctor.json" || true
    holds "any(r['what'] == '$what' and r['state'] == '$state' for r in d['findings'])" \
        < "$BATS_TEST_TMPDIR/doctor.json"
}

@test "doctor: a machine and a program that are fit" {
    run autograph doctor "$AG_BUILD/examples/loop_driver"
    echo "$output"
    [ "$status" -eq 0 ]
    finding driver ok
    finding GPU ok
    finding effect ok "$AG_BUILD/examples/loop_driver"
    [[ "$output" =~ "libautograph.so, version "[0-9.]+", "(commit\ [0-9a-f]+|not\ built) ]]
}

@test "doctor: no driver, no GPU, an old driver" {
    LD_LIBRARY_PATH='' run autograph doctor
    [ "$status" -eq 1 ]
    [[ "$output" == *"no CUDA driver"* ]]
    SIMCUDA_DEVICES=0 finding driver ok # its version is known without a GPU
    grep -q 'CUDA 13.0' "$BATS_TEST_TMPDIR/doctor.json"
    SIMCUDA_DEVICES=0 finding GPU BAD
    mkdir "$BATS_TEST_TMPDIR/driver" # as NVIDIA's package installs it
    cp "$AG_BUILD/tests/simdriver/libcuda.so.1" "$BATS_TEST_TMPDIR/driver/libcuda.so.580.82.07"
    ln -s libcuda.so.580.82.07 "$BATS_TEST_TMPDIR/driver/libcuda.so.1"
    LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/driver" finding driver ok
    grep -q 'CUDA 13.0, driver 580.82.07' "$BATS_TEST_TMPDIR/doctor.json"
    SIMCUDA_VERSION=12030 finding driver BAD
    grep -q 'CUDA 12.3: too old' "$BATS_TEST_TMPDIR/doctor.json"
}

@test "doctor: programs that the loader does not take the library into" {
    cd "$BATS_TEST_TMPDIR"
    echo 'int main(void) { return 0; }' > p.c
    "${CC:-cc}" p.c -o dynamic
    finding linking ok ./dynamic
    "${CC:-cc}" -static p.c -o static
    finding linking BAD ./static
    cp dynamic suid
    chmod u+s suid
    finding setuid BAD ./suid
    printf '#!/usr/bin/env python3\n' > script
    chmod +x script
    finding script note ./script
    echo text > text
    finding kind BAD ./text
    finding program BAD ./nothing
    run autograph doctor ./static
    [ "$status" -eq 1 ]
}

@test "doctor: programs that cannot be run" {
    cd "$BATS_TEST_TMPDIR"
    echo 'int main(void) { return 0; }' > p.c
    "${CC:-cc}" p.c -o dynamic
    finding program ok ./dynamic
    "${CC:-cc}" p.c -Wl,--dynamic-linker=/nowhere/ld.so -o loaderless
    finding linking BAD ./loaderless
    printf '#! /nowhere/sh -e\n' > script
    chmod +x script
    finding script BAD ./script
    printf '#!/bin/sh -e\n' > script
    finding script note ./script
    chmod -x dynamic script
    finding program BAD ./dynamic
    finding program BAD ./script
    finding program BAD ""
    # found as the shell finds it: no folder, and the one where it stands by an empty name
    mkdir folder folder/dynamic
    chmod +x dynamic
    PATH=$PWD/folder::$PATH finding program ok dynamic
}

@test "doctor: settings that leave nothing to gain" {
    AUTOGRAPH=0 finding AUTOGRAPH BAD
    CUDA_LAUNCH_BLOCKING=1 finding CUDA_LAUNCH_BLOCKING note
    finding library BAD --library=/nowhere.so
}

@test "doctor: nothing of the program's is started, its interpreter included" {
    [ "$(uname -m)" = x86_64 ] || skip "its loader is written for x86-64"
    cd "$BATS_TEST_TMPDIR"
    cat > loader.c <<'C'
#include <fcntl.h>
#include <sys/syscall.h>
static long call(long n, const void *a, long b, long c)
{
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
void _start(void) { call(SYS_exit, (void *)(long)(call(SYS_open, "started", O_CREAT | O_WRONLY, 0600) < 0), 0, 0); }
C
    "${CC:-cc}" -static -nostdlib -fno-stack-protector loader.c -o loader # glibc's start looks at the environment itself
    ./loader && [ -e started ] && rm started # it would tell
    echo 'int main(void) { return 0; }' > p.c
    "${CC:-cc}" p.c -o program -Wl,--dynamic-linker="$PWD/loader"
    ./program && [ -e started ] && rm started
    printf '#!%s\n' "$PWD/loader" > script
    chmod +x script
    for name in program script; do
        autograph doctor "./$name" > told || true
        [ ! -e started ]
    done
    autograph doctor ./program | grep -q "dynamic, $PWD/loader"
}

@test "doctor: what a program is linked with, and damaged headers" {
    cd "$BATS_TEST_TMPDIR"
    autograph doctor "$AG_BUILD/examples/loop_driver" | grep -q 'linked with libcuda.so.1'
    size=$(stat -c %s "$AG_BUILD/examples/loop_driver")
    for at in $(seq 16 8 120) 600 700 800; do # headers, and what they lead to
        cp "$AG_BUILD/examples/loop_driver" bad
        printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | dd of=bad bs=1 seek="$at" conv=notrunc status=none
        run autograph doctor ./bad
        [ "$status" -le 1 ]
        head -c "$((size * at / 900))" "$AG_BUILD/examples/loop_driver" > cut
        run autograph doctor ./cut
        [ "$status" -le 1 ]
    done
}

@test "help: of a verb, by -h too; a verb that is nearly one" {
    for verb in run report timeline graphs html diff replay top env doctor; do
        autograph help $verb | grep -q "^Usage: autograph $verb "
        [ "$(autograph $verb -h)" = "$(autograph $verb --help)" ]
    done
    [ "$(autograph report some.dump -h)" = "$(autograph report --help)" ]
    [ "$(autograph run -q echo -h)" = -h ]
    [ "$(autograph -q echo -h)" = -h ]
    run -127 autograph reprot x
    [ "$output" = 'autograph: cannot run reprot: No such file or directory; did you mean `autograph report`?' ]
    run -127 autograph evn
    [ "$output" = 'autograph: cannot run evn: No such file or directory; did you mean `autograph env`?' ]
    run -127 autograph hepl # two changes from html, too
    [ "$output" = 'autograph: cannot run hepl: No such file or directory; did you mean `autograph help`?' ]
    run autograph help reprot
    [ "$status" -eq 2 ]
    [ "$output" = 'autograph: there is no verb reprot; did you mean report?' ]
    run -2 autograph report
    [[ "$output" == *'a dump is missing (autograph --trace=FILE PROGRAM writes one)'* ]]
    # what a wrong option of a run points to leads on to these
    run autograph --trase=x true
    [[ "$output" == *"Try \`autograph --help'"* ]]
    autograph --help | grep -qF '`autograph help run` lists the options'
    for asked in help "help help" "help -h" -h --help; do
        run -0 autograph $asked
        [ "$(wc -L <<<"$output")" -le 80 ]
    done
    # what could not be written is no success, and is told once
    for asked in --help --version "report -h" "help env" env; do
        run -1 sh -c "'$AG_COMMAND' $asked > /dev/full"
        [ "$output" = "autograph: cannot write the output: No space left on device" ]
    done
}

@test "doctor: settings as env sees them; nothing said of what is not the program's" {
    finding settings ok
    AUTOGRAPH_TEST_CHUNK=many finding setting BAD
    grep -q 'AUTOGRAPH_TEST_CHUNK=many is not one of 0..1024' "$BATS_TEST_TMPDIR/doctor.json"
    AUTOGRAPH_TEST_CHUNKS=1 finding setting BAD
    grep -q 'did you mean AUTOGRAPH_TEST_CHUNK?' "$BATS_TEST_TMPDIR/doctor.json"
    AUTOGRAPH=off finding AUTOGRAPH BAD
    AUTOGRAPH=observe finding AUTOGRAPH note
    run autograph doctor
    [[ "$output" =~ "driver"\ +"CUDA "[0-9]+\.[0-9]+ ]]
    program=$AG_BUILD/examples/loop_static
    [ -x "$program" ] || skip "no program of cudart is built"
    run autograph doctor "$program" # static cudart calls dlmopen by itself
    [[ "$output" != *dlmopen* && "$output" == *"linked with cudart (static)"* ]]
}

@test "a settings file: for the program that it names, behind the environment; env says where values come from" {
    cd "$BATS_TEST_TMPDIR"
    mkdir config
    printf '%s\n' 'stats = 2' '[loop_driver]' 'log_file = told' 'test_chunk = 4' '[other]' 'autograph = 0' > config/autograph.conf
    export XDG_CONFIG_HOME=$PWD/config
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 LD_PRELOAD=$PRELOAD "$AG_BUILD/examples/loop_driver" --steps=50 --reps=1
    grep -q ': replayed [1-9]' told
    grep -q 'sync point' told # all counters, as 2 says
    rm told
    # built at once: where little is replayed, a line says so
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 LD_PRELOAD=$PRELOAD AUTOGRAPH_STATS=0 "$AG_BUILD/examples/loop_driver" --steps=50 --reps=1
    [ ! -e told ]
    cp "$AG_BUILD/examples/loop_driver" other
    LD_PRELOAD=$PRELOAD run ./other --steps=50 --reps=1
    [[ "$output" != *autograph* ]] # off
    autograph "$AG_BUILD/examples/loop_driver" --steps=50 --reps=1
    grep -q 'sync point' told # the command asks for the short summary only where nothing else is asked for
    where() { # VARIABLE VALUE ORIGIN [PROGRAM]
        autograph env -f json "${@:4}" | holds "[(r['value'], r['from']) for r in d['variables'] if r['variable'] == '$1'] == [('$2', '$3')]"
    }
    where AUTOGRAPH_TEST_CHUNK 0 default
    where AUTOGRAPH_STATS 2 "$PWD/config/autograph.conf:1"
    where AUTOGRAPH_TEST_CHUNK 4 "$PWD/config/autograph.conf:4" /some/where/loop_driver
    AUTOGRAPH_TEST_CHUNK=8 where AUTOGRAPH_TEST_CHUNK 8 environment loop_driver
    where AUTOGRAPH 0 "$PWD/config/autograph.conf:6" other
    autograph doctor ./other -f json | holds "any(r['what'] == 'AUTOGRAPH' and r['state'] == 'BAD' for r in d['findings'])"
    # a program without CUDA does not read it, one with CUDA says what is wrong
    echo nonsense > config/autograph.conf
    LD_PRELOAD=$PRELOAD run sh -c true
    [ -z "$output" ]
    LD_PRELOAD=$PRELOAD run "$AG_BUILD/examples/loop_driver" --steps=5 --reps=1
    [ "$(grep -c "^autograph: $PWD/config/autograph.conf:1: nonsense is no setting: NAME = VALUE$" <<<"$output")" -eq 1 ]
    echo '= 1' > config/autograph.conf
    run autograph env
    [[ "$output" == *"conf:1: = 1 is no setting: NAME = VALUE"* ]]
    # what a dump tells of the settings
    printf '[loop_driver]\ntrace = dump\ntest_chunk = 4\n' > config/autograph.conf
    LD_PRELOAD=$PRELOAD "$AG_BUILD/examples/loop_driver" --steps=5 --reps=1
    grep -aq 'AUTOGRAPH_TEST_CHUNK=4' dump
}

@test "options that contradict each other or mean nothing are refused" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/dump" loop_driver --steps=20 --reps=1
    for wrong in "--observe --compare true" "--observe -q true" "--compare -q true" "-f json true" "-o out true" "--observe --trace=t -f json true" \
        "--compare=fast true" "--compare=0 true" "--trace= true" "graphs dump -o out.svg -f json" "graphs dump -o out.png -t graphs" "graphs dump -o out.jpg" \
        "graphs dump -g 1 -n 3" "graphs dump -g 0" "report dump -n -1" "report dump -n 99999999999" "diff dump dump -n x" "top 1 -n -1" \
        "timeline dump --from=2 --to=1"; do
        run autograph $wrong
        echo "$wrong: $status $output"
        [ "$status" -eq 2 ]
        [ "$(ls)" = dump ]
    done
}

@test "without --format the output file's name says which" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/dump" loop_driver --steps=20 --reps=1
    for verb in report graphs replay; do
        autograph $verb dump -o out.json
        python3 -m json.tool out.json >/dev/null
        autograph $verb dump -o out.txt
        run python3 -m json.tool out.txt
        [ "$status" -eq 1 ]
    done
    autograph report dump -o out.csv -f text
    autograph report dump | cmp - out.csv
}

@test "graphs: one that is not there writes nothing, and spoils no file that is" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/dump" loop_driver --steps=20 --reps=1
    for file in out.dot out.svg; do
        echo before > $file
        for format in "" "-f json"; do
            [ $file$format != "out.svg-f json" ] || continue
            run autograph graphs dump -g 9999 -o $file $format
            [ "$status" -eq 1 ]
            [ "$output" = "autograph: there is no graph 9999" ]
            [ "$(cat $file)" = before ]
        done
    done
    run autograph graphs dump -g 9999
    [ "$output" = "autograph: there is no graph 9999" ]
}

@test "a dump is never written over by what is made of it, and no page goes to a terminal" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/dump" loop_driver --steps=20 --reps=1
    cp dump before
    ln -s dump link
    for verb in report html timeline graphs replay "diff dump"; do
        for name in dump ./dump link; do
            run -2 autograph $verb dump -o $name
            [[ "$output" == *"$name is the dump itself"* ]]
            cmp dump before
        done
    done
    for verb in html timeline; do
        run script -qec "'$AG_COMMAND' $verb dump" /dev/null
        [[ "$output" == *"that is nothing for a terminal: -o FILE"* ]]
    done
}

@test "graphs: without dot a picture is refused, and what was there stays" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/dump" loop_driver --steps=20 --reps=1
    echo precious > drawn.png
    PATH=/nowhere run "$AG_COMMAND" graphs dump -o drawn.png
    [ "$status" -eq 1 ]
    [[ "$output" == *"a drawing needs Graphviz's \`dot\`"* ]]
    [ "$(cat drawn.png)" = precious ]
}

@test "doctor: what docs/reach.md says of the libraries of a program" {
    # the command's table is the page's: what differs is printed
    diff <(grep '^AG_REACH' "$AG_SOURCE/tools/reach.def") \
        <(python3 "$AG_SOURCE/tests/tools/reach.py" "$AG_SOURCE/docs/reach.md" "$AG_SOURCE/tools/reach.def")
    cd "$BATS_TEST_TMPDIR"
    echo 'int f(void) { return 0; }' > f.c
    for name in cufft cublasLt other; do
        "${CC:-cc}" -shared -fPIC f.c -o lib$name.so -Wl,-soname,lib$name.so.12
    done
    echo 'int main(void) { return 0; }' > p.c
    "${CC:-cc}" p.c -o program -Wl,--no-as-needed -L. -lcufft -lcublasLt -lother
    autograph doctor ./program -f json | holds "[r['finding'].split(':')[0] for r in d['findings'] if r['what'] == 'reach'] == ['cuFFT', 'cuBLASLt']"
    autograph doctor ./program | grep -Eq 'cuFFT: in docs/reach.md [0-9]+ short loops of it, with the same results as without the library, [0-9.]+ to 100.0 % of the launches replayed'
}

@test "a settings file: a setuid program reads none" {
    [ "$(id -u)" -eq 0 ] || skip "setuid for somebody else needs root"
    command -v setpriv >/dev/null || skip "setpriv is not installed"
    folder=$(mktemp -d)
    no grep -q nosuid <(findmnt -no OPTIONS -T "$folder") || { rm -r "$folder"; skip "setuid has no effect here"; }
    chmod 755 "$folder"
    cp "$AG_COMMAND" "$folder/autograph" # it reads them as the library does
    echo 'test_chunk = 4' > "$folder/conf"
    origin() {
        setpriv --reuid=65534 --clear-groups env AUTOGRAPH_CONFIG="$folder/conf" "$folder/autograph" env -f json |
            python3 -c 'import json, sys; print([r["from"] for r in json.load(sys.stdin)["variables"] if r["variable"] == "AUTOGRAPH_TEST_CHUNK"][0])'
    }
    before=$(origin)
    chmod u+s "$folder/autograph"
    after=$(origin)
    rm -r "$folder"
    [ "$before" = "$folder/conf:1" ]
    [ "$after" = default ]
}

@test "a settings file that may not be read: one line where it is there, none where nobody may look" {
    [ "$(id -u)" -eq 0 ] || skip "becoming somebody else needs root"
    command -v setpriv >/dev/null || skip "setpriv is not installed"
    folder=$(mktemp -d)
    chmod 755 "$folder"
    cp "$AG_COMMAND" "$folder/autograph"
    mkdir "$folder/config"
    echo 'test_chunk = 4' > "$folder/config/autograph.conf"
    chmod 600 "$folder/config/autograph.conf"
    as_nobody() {
        setpriv --reuid=65534 --clear-groups env XDG_CONFIG_HOME="$folder/config" "$folder/autograph" env 2>&1 >/dev/null
    }
    closed=$(as_nobody)
    chmod 700 "$folder/config"
    hidden=$(as_nobody)
    rm -r "$folder"
    [[ "$closed" == *"$folder/config/autograph.conf cannot be read: Permission denied"* ]]
    [ -z "$hidden" ]
}
