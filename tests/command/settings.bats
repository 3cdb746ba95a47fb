#!/usr/bin/env bats
# The environment variables: good values, bad values, unknown names, and where messages go.

load common.bash
setup() { common_setup; }

# says LINES COMMAND...: the program under the library says so many lines on stderr.
says() {
    under "${@:2}" >out 2>err
    cat err
    [ "$(lines_of err)" -eq "$1" ]
}

# refuses VARIABLE VALUE RANGE DEFAULT: one line, that names all four.
refuses() {
    env "$1=$2" timeout 60 env LD_PRELOAD="$preload" "$cases" repeat 2 >out 2>err
    cat err
    [ "$(cat err)" = "autograph: $1=$2 is not one of $3; using $4" ]
}

accepts() {
    env "$1=$2" timeout 60 env LD_PRELOAD="$preload" "$cases" repeat 2 >out 2>err
    cat err
    [ "$(lines_of err)" -eq "${3:-0}" ]
}

# Every line of the table that takes a choice or a number: VARIABLE LEAST MOST DEFAULT, from the table itself.
numbers() {
    tr -d '\n' <"$AG_SOURCE/capture/settings/options.def" |
        grep -o 'AG_NUMBER([a-z_]*, *"[A-Z_]*", *[0-9]*, *[0-9]*, *[0-9]*' |
        sed 's/.*"\(AUTOGRAPH[A-Z_]*\)", *\([0-9]*\), *\([0-9]*\), *\([0-9]*\)/\1 \3 \4 \2/'
}

choices() {
    tr -d '\n' <"$AG_SOURCE/capture/settings/options.def" |
        grep -o 'AG_CHOICE([a-z_]*, *"[A-Z_]*", *[0-9]*, *"[^"]*"' |
        sed 's/.*"\(AUTOGRAPH[A-Z_]*\)", *\([0-9]*\), *"\([^"]*\)"/\1 \2 \3/'
}

@test "every number: its bounds are accepted, what lies outside gives one line" {
    at_least "variables" "$(numbers | wc -l)" 9
    while read -r name least most preset; do
        [ "$name" = AUTOGRAPH_STATS ] || accepts "$name" "$least"
        [ "$name" = AUTOGRAPH_STATS ] || accepts "$name" "$most"
        accepts "$name" ""
        refuses "$name" $((most + 1)) "$least..$most" "$preset"
        [ "$least" -eq 0 ] || refuses "$name" $((least - 1)) "$least..$most" "$preset"
        for bad in -1 +1 1x x 0x10 99999999999999999999 " " 1.5; do
            refuses "$name" "$bad" "$least..$most" "$preset"
        done
    done < <(numbers)
}

@test "every choice: its words are accepted, others give one line" {
    at_least "variables" "$(choices | wc -l)" 3
    while read -r name preset words; do
        IFS='|' read -ra all <<<"$words"
        for word in "${all[@]}"; do
            [ "$name" = AUTOGRAPH_LOG ] || accepts "$name" "$word"
        done
        accepts "$name" ""
        [ "$name" = AUTOGRAPH ] && preset=0 # what is not understood is off
        for bad in "${all[0]}x" "x" "${words}" " "; do
            refuses "$name" "$bad" "$words" "${all[$preset]}"
        done
    done < <(choices)
}

@test "a bad value means the default" {
    AUTOGRAPH_TEST_BUILD=here AUTOGRAPH_STATS=2 AUTOGRAPH_MEMORY_MB=0 under "$cases" repeat 3000 2>err
    grep -q 'replayed [1-9]' err
    grep -q 'MiB of 256' err
}

@test "AUTOGRAPH=off, no and false are off; what is not understood is off, and one line says so" {
    for word in off no false FALSE 0; do
        AUTOGRAPH=$word AUTOGRAPH_STATS=1 says 0 "$cases" repeat 60
        [[ "$(AUTOGRAPH=$word under "$cases" hooks)" != *autograph* ]]
    done
    AUTOGRAPH=nonsense AUTOGRAPH_STATS=1 says 1 "$cases" repeat 60
    [ "$(cat err)" = "autograph: AUTOGRAPH=nonsense is not one of 0|observe|1; using 0" ]
    [[ "$(AUTOGRAPH=nonsense under "$cases" hooks 2>/dev/null)" != *autograph* ]]
    [[ "$(AUTOGRAPH=yes under "$cases" hooks)" == *autograph* ]]
    AUTOGRAPH=nonsense under true 2>err # not a word where there is no CUDA
    [ ! -s err ]
}

@test "a very long value is cut in the message" {
    AUTOGRAPH_TEST_CHUNK=$(printf '9%.0s' {1..5000}) says 1 "$cases" repeat 2
    [ "$(wc -c <err)" -lt 200 ]
}

@test "a program that has a variable named environ of its own: the library reads the environment's" {
    same "$AG_BUILD/tests/command/command_environ"
    grep -qx 'cuInit: there' eager.out
    AUTOGRAPH_STAT=1 says 1 "$AG_BUILD/tests/command/command_environ"
    grep -q 'did you mean AUTOGRAPH_STATS' err
}

@test "an unknown variable gives one warning with the nearest name" {
    AUTOGRAPH_STAT=1 says 1 "$cases" repeat 2
    [ "$(cat err)" = "autograph: AUTOGRAPH_STAT is not a variable of this library; did you mean AUTOGRAPH_STATS?" ]
    AUTOGRAPH_MAX_DEFFER=1 says 1 "$cases" repeat 2
    grep -q 'mean AUTOGRAPH_MAX_DEFER_US?' err
    AUTOGRAPH_XYZ=1 says 1 "$cases" repeat 2
    [ "$(cat err)" = 'autograph: AUTOGRAPH_XYZ is not a variable of this library; `autograph env` lists them' ]
    AUTOGRAPH_TEST_FOO=1 says 1 "$cases" repeat 2
    [ "$(cat err)" = 'autograph: AUTOGRAPH_TEST_FOO is not a variable of this library; `autograph env` lists them' ]
    AUTOGRAPHICS=1 says 0 "$cases" repeat 2
    AUTOGRAPH_VERBOSITY=0 AUTOGRAPH_STRICT_CONVERSION=1 says 0 "$cases" repeat 2 # TensorFlow's
}

@test "where little is replayed, one line says why and what to do, once, by default" {
    export SIMCUDA_VERSION=12030
    says 1 "$cases" repeat 60
    grep -Eq '^autograph: command_cases\[[0-9]+\]: replayed 0 of 1[0-9]{3} launches: the driver is older than CUDA 12.4. What to do: install a driver' err
    says 0 "$cases" repeat 30 # little was launched
    AUTOGRAPH_LOG=off says 0 "$cases" repeat 60
    AUTOGRAPH=observe says 0 "$cases" repeat 60
    AUTOGRAPH=0 says 0 "$cases" repeat 60
    AUTOGRAPH_STATS=1 says 4 "$cases" repeat 60
    grep -q 'why not more: mostly because the driver is older' err
    unset SIMCUDA_VERSION
    AUTOGRAPH_TEST_BUILD=inline says 0 "$cases" repeat 60 # a builder's thread may get no processor in time
}

@test "the reason that is told is the largest: a tool, a table, a kind of op, no repetition" {
    CUDA_INJECTION64_PATH=/nowhere says 1 "$cases" repeat 60
    grep -q 'a tool watches the driver. What to do: run it without the tool' err
    SIMCUDA_TABLES=01020304-0506-0708-090a-0b0c0d0e0f10 AUTOGRAPH_TEST_BUILD=inline says 1 "$cases" table 100
    grep -q 'an export table that nobody knows .*0102.*AUTOGRAPH_FORCE=1' err
    says 1 "$loop" --never-repeat --steps=200 --reps=1
    grep -q 'not known to repeat' err
}

@test "AUTOGRAPH_LOG: off and warn say nothing where all is well, info the start, debug the graphs" {
    AUTOGRAPH_LOG=off says 0 "$cases" repeat 50
    AUTOGRAPH_LOG=warn AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 says 0 "$cases" repeat 50
    AUTOGRAPH_LOG=info under "$cases" repeat 50 2>err
    cat err
    grep -qx 'autograph: start: replaying' err
    none grep -q 'build:' err
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_LOG=debug under "$cases" repeat 50 2>err
    grep -q '^autograph: build: graph of [0-9]* ops built' err
    [ "$(grep -vc '^autograph: ' err)" -eq 0 ]
}

@test "AUTOGRAPH_LOG_FILE knows %p, %h, %e and %%" {
    AUTOGRAPH_STATS=1 AUTOGRAPH_LOG_FILE=$PWD/%e.%h.%p.%%.%x says 0 "$cases" repeat 5
    file=$(echo command_cases.*)
    [[ "$file" =~ ^command_cases\.$(uname -n)\.[0-9]+\.%\.%x$ ]]
    grep -q ': replayed' "$file"
}

@test "AUTOGRAPH_LOG_FILE is added to, never emptied" {
    export AUTOGRAPH_STATS=1 AUTOGRAPH_LOG_FILE=$PWD/log
    echo "kept" >log
    says 0 "$cases" repeat 5
    says 0 "$cases" repeat 5
    [ "$(head -n 1 log)" = kept ]
    [ "$(grep -c ': replayed' log)" -eq 2 ]
}

@test "paths are those that were given, whatever the program writes over its environment" {
    mkdir empty
    cd empty
    AUTOGRAPH_STATS=1 AUTOGRAPH_LOG_FILE=$PWD/../log AUTOGRAPH_TRACE=$PWD/../dump says 0 "$cases" title 50
    [ "$(echo *)" = "err out" ]
    grep -q ': replayed' ../log
    [ -s ../dump ]
}

@test "a program without standard error: nothing is written to its own file of that number" {
    export AUTOGRAPH_STATS=1
    under "$cases" own-file 50 2>&- | grep -qx 'file 2'
    [ ! -s own ]
    AUTOGRAPH_LOG_FILE=$PWD/no/such/folder under "$cases" own-file 50 2>&-
    [ ! -s own ]
    AUTOGRAPH_LOG_FILE=$PWD/log under "$cases" own-file 50 2>&-
    [ ! -s own ]
    grep -q ': replayed' log
}

@test "a file that cannot be written is one line, and messages go to stderr" {
    AUTOGRAPH_STATS=1 AUTOGRAPH_LOG_FILE=$PWD/no/such/folder under "$cases" repeat 5 2>err
    cat err
    [ "$(grep -c 'cannot open AUTOGRAPH_LOG_FILE .*/no/such/folder: No such file' err)" -eq 1 ]
    grep -q ': replayed' err
}

@test "a symbolic link is not followed" {
    : >target
    ln -s target link
    AUTOGRAPH_STATS=1 AUTOGRAPH_LOG_FILE=$PWD/link under "$cases" repeat 5 2>err
    grep -q 'cannot open AUTOGRAPH_LOG_FILE' err
    [ ! -s target ]
}

@test "AUTOGRAPH_STATS=1: four lines, each with program and pid: replayed, saved, cost, why not more" {
    AUTOGRAPH_STATS=1 AUTOGRAPH_TEST_BUILD=inline under "$cases" repeat 50 >out 2>err
    cat err
    "$cases" repeat 50 | cmp out
    [ "$(lines_of err)" -eq 4 ]
    sed 's/^autograph: command_cases\[[0-9]*\]: //' err >said
    none cmp -s err said
    grep -q '^replayed [0-9]* of 1000 ops ([0-9.]*%) in [0-9]* graph launches' said
    grep -Eq '^it (saved|lost) [0-9.]+ ms of the host.s time in launches \(measured\), [0-9.]+ us each' said
    grep -q '^it cost [0-9.]* ms to build graphs, with waits for the driver, [0-9.]* ms of processor time to watch over what it holds back, and [0-9.]* MiB for graphs' said
    grep -q '^why not more: ' said
    grep -q 'AUTOGRAPH_TRACE=FILE writes a dump' said
    RANK=3 AUTOGRAPH_STATS=1 under "$cases" repeat 5 2>err
    [ "$(grep -c '^autograph: command_cases\[[0-9]*\] rank 3: ' err)" -eq 4 ]
    SLURM_PROCID=007 RANK=no AUTOGRAPH_STATS=1 under "$cases" repeat 5 2>err
    [ "$(grep -c '^autograph: command_cases\[[0-9]*\] rank 007: ' err)" -eq 4 ]
}

@test "AUTOGRAPH_STATS=2 prints the figures, on stderr alone" {
    AUTOGRAPH_STATS=2 AUTOGRAPH_TEST_BUILD=inline under "$cases" repeat 50 >out 2>err
    cat err
    "$cases" repeat 50 | cmp out
    [ "$(grep -vc '^autograph: ' err)" -eq 0 ]
    for part in 'replayed [0-9]* of 1000 ops' 'eager [0-9]*, flushed [0-9]*' 'graphs built [1-9][0-9]* (' \
        'memory [0-9.]* MiB of 256' 'sync point cuStreamSynchronize *5[01]$'; do
        grep -q "$part" err
    done
    # every op went one way
    read -r replayed ops < <(sed -n 's/.*replayed \([0-9]*\) of \([0-9]*\) ops.*/\1 \2/p' err)
    read -r eager flushed covered < <(sed -n 's/.*eager \([0-9]*\), flushed \([0-9]*\), covered by shorter graphs \([0-9]*\).*/\1 \2 \3/p' err)
    echo "$replayed $ops $eager $flushed $covered"
    [ $((replayed + eager + flushed)) -eq "$ops" ]
    AUTOGRAPH_STATS=0 AUTOGRAPH_TEST_BUILD=inline says 0 "$cases" repeat 50
}

@test "a process that launched nothing says so in one line" {
    AUTOGRAPH_STATS=1 under "$cases" repeat 0 >out 2>err
    cat err
    [ "$(wc -l <err)" -eq 1 ]
    grep -q ': launched nothing$' err
}

@test "AUTOGRAPH_MEMORY_MB bounds the graphs" {
    export AUTOGRAPH_TEST_GRIDS=1000000 # it tells its ops apart by their grids
    for build in thread inline; do
        AUTOGRAPH_TEST_BUILD=$build AUTOGRAPH_MEMORY_MB=1 same "$cases" phases 120
        cat summary
        used=$(sed -n 's/.*memory \([0-9]*\)\.[0-9]* MiB of 1$/\1/p' summary)
        [ "$used" -le 1 ]
    done
    # by a thread, whose turns are the machine's affair: of more and more phases until there are enough
    for phases in 120 360 1080; do
        AUTOGRAPH_TEST_BUILD=thread AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_MEMORY_MB=1 same "$cases" phases $phases
        cat summary
        [ "$(replayed_share)" -lt 10 ] || break
    done
    at_least "replayed per cent, where room is made" "$(replayed_share)" 10
    AUTOGRAPH_MEMORY_MB=64 same "$cases" phases 120
    used=$(sed -n 's/.*memory \([0-9]*\)\.[0-9]* MiB of 64$/\1/p' summary)
    at_least "MiB without the bound" "$used" 2
}

@test "AUTOGRAPH_TEST_CHUNK and AUTOGRAPH_TEST_MAX_CHUNK cut the graphs" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_LOG=debug
    AUTOGRAPH_TEST_CHUNK=5 under "$cases" repeat 30 2>err
    grep 'graph of' err
    [ "$(grep -o 'graph of [0-9]* ops built' err | sort -u | wc -l)" -eq 1 ]
    AUTOGRAPH_TEST_MAX_CHUNK=8 under "$cases" repeat 30 2>err
    grep 'graph of' err
    # how long they are hangs on the pace of the host; a rest of up to 3 ops may join the last
    none grep -Eq 'graph of (1[2-9]|[2-9][0-9]+) ops built' err
}

@test "AUTOGRAPH_TEST_MIN_REPEATS and AUTOGRAPH_TEST_MIN_OPS put off and rule out" {
    export AUTOGRAPH_TEST_BUILD=inline
    AUTOGRAPH_TEST_MIN_REPEATS=40 same "$cases" repeat 39
    [ "$(figure 'graphs built')" -eq 0 ]
    AUTOGRAPH_TEST_MIN_REPEATS=40 same "$cases" repeat 60
    at_least "graphs built" "$(figure 'graphs built')" 1
    AUTOGRAPH_TEST_MIN_OPS=21 same "$cases" repeat 50
    cat summary
    [ "$(figure 'graphs built')" -eq 0 ]
}

@test "AUTOGRAPH_MAX_DEFER_US is when the watchdog flushes" {
    needs_own_kernels # fences: the program's results are in memory of the host
    export AUTOGRAPH_TEST_BUILD=inline
    AUTOGRAPH_MAX_DEFER_US=50000 same "$faults" spin
    late=$(sed -n 's/^MEASURED .*worst \([0-9]*\)\..*/\1/p' with.out)
    at_least "worst us with 50 ms" "$late" 25000
    AUTOGRAPH_MAX_DEFER_US=100 sees_its_flag_within 15000
}

# It takes 350 ms to fill a chunk. A look comes each 250 ms, and what has to go goes behind 450.
@test "the watchdog leaves a chunk alone for nearly all of AUTOGRAPH_MAX_DEFER_US" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_CHUNK=10 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_SUBMIT=inline AUTOGRAPH_MAX_DEFER_US=500000
    for try in 1 2 3 4 5; do # a busy machine may hold the program up for longer
        same "$cases" slow-fill 14
        [ "$(figure 'flushes by the watchdog')" -ne 0 ] || break
    done
    [ "$(figure 'flushes by the watchdog')" -eq 0 ]
    at_least replayed "$(figure replayed)" 100
}

# 101 pauses, at a new place each time. A wait for a slow look takes 20,000 us or more. Looks are fast for a thread alone that
# runs three quarters of such a wait, which none does beside ten others.
@test "where a stream has had to wait for the watchdog, it looks more often for a while" {
    needs_own_kernels # fences: the program's results are in memory of the host
    [ "$(nproc)" -ge 2 ] || skip "there is no processor for that"
    AUTOGRAPH_MAX_DEFER_US=40000 sees_its_flag_within 8000 90
    at_least "worst us" "$(sed -n 's/^MEASURED .*worst \([0-9]*\)\..*/\1/p' with.out)" 16000
    at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 20
}

# It takes 640 us to fill a chunk, 20 us an op. Looks come each 20 us then.
@test "where the watchdog looks more often, it leaves a chunk alone that a slow host still fills" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_CHUNK=32 AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_SUBMIT=inline
    AUTOGRAPH_MAX_DEFER_US=30000 same "$cases" pauses-once 100
    at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 1
    # on a busy machine the program's thread does pause
    at_least "pauses, and flushes" "$(sed -n 's/^MEASURED \([0-9]*\) pauses.*/\1/p' with.out)" "$(figure 'flushes by the watchdog')"
}

@test "the watchdog looks no more often than it can do any good, and the summary says what that took" {
    export AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_SUBMIT=inline
    for program in slow-host-pauses fast-host-pauses fast-host-sleeps; do
        for try in 1 2 3 4 5; do # a host that is held up for a moment may look as if it polled
            same "$cases" $program 80
            looks=$(sed -n 's/^MEASURED \([0-9]*\) %.*/\1/p' with.out)
            echo "$program: $looks % of the most looks in try $try"
            [ "$looks" -ge 100 ] || break
        done
        [ "$looks" -lt 100 ]
        at_least "flushes by the watchdog" "$(figure 'flushes by the watchdog')" 1
        grep -Eq ': it cost .* ms of processor time to watch over what it holds back' summary
        none grep -q ' 0.0 ms to watch' summary
    done
}

@test "AUTOGRAPH_FORCE=1 replays where a profiler is attached" {
    export CUDA_INJECTION64_PATH=/nowhere AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0
    same "$cases" repeat 50
    [ "$(figure replayed)" -eq 0 ]
    AUTOGRAPH_FORCE=1 same "$cases" repeat 50
    at_least "replayed per cent" "$(replayed_share)" 80
}
