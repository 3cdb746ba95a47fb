# common.bash - what the suites of the command share. The paths come by environment from CMake; by hand:
# bats tests/tools/report.bats with AG_BUILD naming the build folder.

: "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}"
: "${AG_BUILD:=$AG_SOURCE/build}"
: "${AG_COMMAND:=$AG_BUILD/tools/autograph}"
: "${AG_LIBRARY:=$AG_BUILD/preload/libautograph.so}"
PRELOAD=${AG_RUNTIME:+$AG_RUNTIME:}$AG_LIBRARY # a sanitizer's runtime wants to be first
export LD_LIBRARY_PATH="$AG_BUILD/tests/simdriver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export COLUMNS=2000 # texts are looked for in whole lines
export XDG_CONFIG_HOME=${BATS_RUN_TMPDIR:-/tmp}/config # no settings file of who runs this
unset AUTOGRAPH AUTOGRAPH_CONFIG AUTOGRAPH_STATS AUTOGRAPH_TRACE AUTOGRAPH_LOG AUTOGRAPH_LOG_FILE

autograph() {
    "$AG_COMMAND" "$@"
}

example() { # NAME ARGS...
    local name=$1
    shift
    "$AG_BUILD/examples/$name" "$@"
}

traced() { # DUMP NAME ARGS...: an example with a dump
    local dump=$1 name=$2
    shift 2
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$dump" AUTOGRAPH_TEST_BUILD="${AUTOGRAPH_TEST_BUILD:-inline}" \
        "$AG_BUILD/examples/$name" "$@"
}

# Dumps of two examples on the simulated driver, in the folder of the suite's file.
trace_examples() {
    cd "$BATS_FILE_TMPDIR" || return 1
    # They gain little on a driver whose calls take no time, and might go eager.
    local -x AUTOGRAPH_TEST_PROFIT=0
    traced "$PWD/loop" loop_driver --steps=200 --reps=2
    traced "$PWD/kernel" loop_driver --sync=kernel --steps=50 --reps=2
    traced "$PWD/none" loop_driver --sync=none --steps=200 --reps=2
    traced "$PWD/never" loop_driver --never-repeat --steps=50 --reps=2
    traced "$PWD/changing" loop_driver --changing --steps=200 --reps=2
    traced "$PWD/heat" heat_driver
    # Sequences in whole graphs: where the policy cuts them, and what it then shares, hangs on the pace of the host.
    AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=100000 traced "$PWD/whole" heat_driver
    AUTOGRAPH=observe traced "$PWD/observed" loop_driver --steps=200 --reps=2
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$PWD/reasons" AUTOGRAPH_TEST_BUILD=inline "$AG_BUILD/tests/tools/tools_reasons"
}

# Evaluates a Python expression over the JSON document on stdin, d; fails where it is not true.
holds() {
    python3 -c '
import json, sys
d = json.load(sys.stdin)
v = eval(sys.argv[1])
if not v:
    print("not so:", sys.argv[1], "in", json.dumps(d)[:3000])
    sys.exit(1)' "$1"
}

# Until the command succeeds: what is waited for takes as long as the machine is busy, a minute at most.
wait_until() {
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    echo "not within a minute: $*"
    return 1
}

larger() { # FILE BYTES
    [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt "$2" ]
}

# The command must fail; a bare `!` would not be noticed by bats.
no() {
    if "$@"; then
        echo "succeeded: $*"
        return 1
    fi
}
