#!/usr/bin/env bats
# Off, observe and quiet: what the library leaves alone.

load common.bash
setup() { common_setup; }

@test "by default nothing is said" {
    # a builder's thread that gets no processor would be a reason to say something
    AUTOGRAPH_TEST_BUILD=inline under "$loop" --steps=50 --reps=1 >out 2>err
    [ "$(lines_of out)" -eq 1 ]
    [ "$(lines_of err)" -eq 0 ]
}

@test "look-ups answer the library's hooks" {
    under "$cases" hooks
    [ "$(under "$cases" hooks)" = "dlsym libautograph.so, getter libautograph.so, getter's answer libautograph.so" ]
}

@test "AUTOGRAPH=0: look-ups answer the driver's own functions" {
    [ "$(AUTOGRAPH=0 under "$cases" hooks)" = "$("$cases" hooks)" ]
    [[ "$("$cases" hooks)" != *autograph* ]]
}

@test "AUTOGRAPH=0: no summary, no message, no thread, nothing but the program's calls" {
    export AUTOGRAPH=0 AUTOGRAPH_STATS=1 AUTOGRAPH_LOG=debug
    SIMCUDA_LOG=$PWD/eager.log "$cases" threads 50 >eager
    SIMCUDA_LOG=$PWD/with.log under "$cases" threads 50 >out 2>err
    cmp eager out
    [ "$(lines_of err)" -eq 0 ]
    diff <(grep ' call ' eager.log | cut -d' ' -f4-) <(grep ' call ' with.log | cut -d' ' -f4-)
}

@test "without AUTOGRAPH=0 there are threads and graph launches" {
    SIMCUDA_LOG=$PWD/log under "$cases" threads 3000 >out
    grep -q '^autograph-build' out
    grep -q '^autograph-watch' out
    grep -q ' call .* cuGraphLaunch ' log
}

@test "AUTOGRAPH=observe: everything is seen, nothing is replayed or built" {
    export AUTOGRAPH=observe
    same "$loop" --steps=100 --reps=1
    cat summary
    [ "$(sed -n 's/.*replayed .* of \([0-9]*\) ops.*/\1/p' summary)" -eq 4000 ]
    [ "$(figure replayed)" -eq 0 ]
    [ "$(figure 'graphs built')" -eq 0 ]
    SIMCUDA_LOG=$PWD/log under "$loop" --steps=100 --reps=1
    none grep -q ' call .* cuGraph' log
}

@test "no thread is started by a program that only looks around" {
    [[ "$(under "$cases" threads 0)" != *autograph* ]]
}

@test "a limit on the size of files ends no program: not by the figures, a message or a dump" {
    export AUTOGRAPH_STATS=1
    for bytes in 0 20 4095 4096; do
        [ "$(under "$cases" small-files $bytes 2>/dev/null | cat)" = synchronized ]
        [ "$(AUTOGRAPH_LOG_FILE=$PWD/log under "$cases" small-files $bytes 2>/dev/null | cat)" = synchronized ]
        [ "$(AUTOGRAPH_TRACE=$PWD/dump under "$cases" small-files $bytes 2>&1 | grep -v ^autograph:)" = synchronized ]
        [ "$(stat -c %s log)" -le "$bytes" ]
        [ "$(stat -c %s dump)" -le "$bytes" ]
        rm log dump
    done
    AUTOGRAPH_TRACE=$PWD/dump under "$cases" small-files 4096 2>&1 | grep "has reached the system's limit on the size of files"
}

@test "messages that nobody reads any more end no program" {
    export AUTOGRAPH_STATS=1
    for asked in AUTOGRAPH_LOG=info AUTOGRAPH_LOG_FILE=/dev/stderr AUTOGRAPH_STAT=1 SIMCUDA_VERSION=12030; do
        run timeout 60 python3 - "$preload" "$asked" "$cases" repeat 60 <<'PY'
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
name, value = sys.argv[2].split("=")
p = subprocess.run(sys.argv[3:], stdout=subprocess.PIPE, stderr=writer, env={**os.environ, "LD_PRELOAD": sys.argv[1], name: value})
print(p.stdout.decode(), end="")
sys.exit(p.returncode % 256)
PY
        echo "$asked: $status $output"
        [ "$status" -eq 0 ]
        [ "$output" = "$("$cases" repeat 60)" ]
    done
}

@test "a terminal that takes nothing from the background stops no program for a message" {
    run timeout 60 python3 - "$preload" "$cases" repeat 60 <<'PY'
import os, pty, subprocess, sys, termios
pid, terminal = pty.fork()
if not pid:
    mode = termios.tcgetattr(0)
    mode[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, mode)
    p = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, preexec_fn=os.setpgrp,
                         env={**os.environ, "LD_PRELOAD": sys.argv[1], "AUTOGRAPH_STATS": "1"})
    how = os.waitpid(p.pid, os.WUNTRACED)[1]
    if os.WIFSTOPPED(how):
        p.kill()
    os._exit(1 if os.WIFSTOPPED(how) else os.waitstatus_to_exitcode(how))
said = b""
try:
    while part := os.read(terminal, 4096):
        said += part
except OSError:
    pass
assert b": replayed" in said, said
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "programs without CUDA: no output, no library loaded, no thread" {
    [ -z "$AG_RUNTIME" ] || skip "a sanitizer's runtime cannot be loaded into them"
    export AUTOGRAPH_STATS=1 AUTOGRAPH_LOG=debug
    run under bash -c 'grep -c libcuda /proc/self/maps; ls /proc/self/task | wc -l'
    [ "$output" = "0
1" ]
    echo 'int main(void) { return 0; }' >x.c
    run under gcc -c x.c
    [ "$status" -eq 0 ] && [ -z "$output" ]
    run under python3 -c 'import threading; print(threading.active_count())'
    [ "$output" = 1 ]
}

@test "a pre-fork server: its workers and theirs replay, each with a log, a dump and a summary of its own" {
    # ThreadSanitizer knows no threads in such a child; AddressSanitizer's heap stays locked in it if another thread held it.
    [ -z "$AG_RUNTIME" ] || skip "a sanitizer's runtime does not bear a fork beside threads"
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000 AUTOGRAPH_TRACE=$PWD/dump.%p
    same "$cases" prefork 200
    cat with.out summary
    [ "$(replayed_share | wc -l)" -eq 5 ]
    for share in $(replayed_share); do at_least "replayed per cent" "$share" 90; done
    [ "$(ls dump.* | wc -l)" -eq 5 ]
    for dump in dump.*; do
        "$AG_BUILD/tools/autograph" report "$dump" | grep -E '9[0-9].[0-9] % of 40[024]0 launches went as graphs'
    done
    AUTOGRAPH_STATS=1 AUTOGRAPH_LOG=info AUTOGRAPH_LOG_FILE=$PWD/log.%p under "$cases" prefork 50
    [ "$(ls log.* | wc -l)" -eq 5 ]
    [ "$(grep -c 'replayed [0-9]* of' log.* | grep -c ':1$')" -eq 5 ]
}

@test "a plug-in's constructor waits for a thread that launches: with a dump, too" {
    export AG_TIMEOUT=20 LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$AG_BUILD/tests/command
    same "$cases" constructor
    grep -qx right with.out
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TRACE=$PWD/dump same "$cases" constructor
    at_least "replayed per cent" "$(replayed_share)" 50
    [ -s dump ]
}

@test "the library is found in a program that is started by another" {
    [ -z "$AG_RUNTIME" ] || skip "a sanitizer's runtime cannot be loaded into bash"
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_STATS=1 under bash -c '"$0" repeat 50' "$cases" 2>err
    grep -q 'replayed [1-9]' err
}

@test "the library is installed as one file" {
    [ -z "$AG_RUNTIME" ] || skip "the plain build alone is installed"
    cmake --install "$AG_BUILD" --prefix "$PWD/root" >/dev/null
    [ -f root/lib/libautograph.so ]
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 preload=$PWD/root/lib/libautograph.so same "$cases" repeat 50
    at_least "replayed per cent" "$(replayed_share)" 80
}

@test "in steps that repeat, the library takes nothing from the program's heap" {
    [ -z "${AG_RUNTIME-}" ] || skip "a sanitizer has a heap of its own"
    for submit in inline thread; do
        SIMCUDA_MODE=null AUTOGRAPH_SUBMIT=$submit AUTOGRAPH_TEST_PROFIT=0 same "$cases" heap 4000
        cat with.out summary
        grep -q ': yes$' with.out
        at_least "replayed ops" "$(figure replayed)" 1000
    done
}
