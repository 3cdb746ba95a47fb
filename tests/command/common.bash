# What the suites of this folder share. AG_BUILD is the build folder (build); AG_LIBRARY may name another library, that of
# a commit in which something is broken. AG_SUBMIT is the AUTOGRAPH_SUBMIT of tests that do not set it: AG_SUBMIT=thread shows
# what the library's own thread does to them all.

common_setup() {
    : "${AG_SOURCE:=$BATS_TEST_DIRNAME/../..}" "${AG_BUILD:=$AG_SOURCE/build}"
    library=${AG_LIBRARY:-$AG_BUILD/preload/libautograph.so}
    [ -e "$library" ] || { echo "$library is not built" >&2; return 1; }
    export LD_LIBRARY_PATH=$AG_BUILD/tests/simdriver
    loop=$AG_BUILD/examples/loop_driver heat=$AG_BUILD/examples/heat_driver
    cases=$AG_BUILD/tests/command/command_cases interop=$AG_BUILD/tests/command/command_interop
    life=$AG_BUILD/tests/command/command_life states=$AG_BUILD/tests/command/command_states
    tasks=$AG_BUILD/tests/command/command_tasks
    submit=$AG_BUILD/tests/command/command_submit forks=$AG_BUILD/tests/command/command_forks
    faults=$AG_BUILD/tests/gpu/faults order=$AG_BUILD/tests/gpu/order strayed=$AG_BUILD/tests/gpu/strayed
    preload=${AG_RUNTIME:+$AG_RUNTIME:}$library
    eager=(timeout -k 5 "${AG_TIMEOUT:=120}") # -k: a handler of the program's may hang as well
    [ -z "${AG_RUNTIME-}" ] || eager+=(env "LD_PRELOAD=$AG_RUNTIME")
    cd "$BATS_TEST_TMPDIR" || return 1
    local variable
    for variable in "${!AUTOGRAPH@}"; do unset "$variable"; done
    [ -z "${AG_SUBMIT-}" ] || export AUTOGRAPH_SUBMIT=$AG_SUBMIT
}

# Skips what follows where the library was built without nvcc. Else the simulated driver takes its kernels.
needs_own_kernels() {
    grep -q '^AG_NVCC:FILEPATH=/' "$AG_BUILD/CMakeCache.txt" || skip "built without nvcc: the library has no kernels of its own"
    export SIMCUDA_FATBINS=1
}

# under COMMAND...: runs it with the library. Bash itself and what it starts stay free of it.
under() {
    timeout -k 5 "${AG_TIMEOUT:-120}" env LD_PRELOAD="$preload" "$@"
}

# To start a process takes as long as many a program of these suites: so there are few in what follows.

# told RUN: what a program told in a run, RUN.out, RUN.err and RUN.status, less what differs from run to run: times.
told() {
    sed -e 's/us_per_launch=[0-9.]*//' -e '/^MEASURED/d' "$1.out" "$1.err"
    echo "status $(<"$1.status")"
}

# eagerly COMMAND...: without the library, into eager.out and eager.err; its status is in eager.status. A test that compares a
# command in several settings of the library runs it eagerly once.
eagerly() {
    local asked
    # shellcheck disable=SC2086 # names of variables
    asked=$(unset ${!AUTOGRAPH@} && export -p && printf '%q ' "$@")
    [ ! -e eager.asked ] || [ "$asked" != "$(<eager.asked)" ] || return 0
    echo 0 >eager.status
    "${eager[@]}" "$@" >eager.out 2>eager.err || echo $? >eager.status
    told eager >eager.told
    printf '%s' "$asked" >eager.asked
}

# same COMMAND...: eagerly and with the library (AUTOGRAPH_* as the caller has set them): output, errors and
# status must be equal. The summary of the run with the library is then in the file `summary`.
same() {
    local without
    rm -f summary
    eagerly "$@"
    without=$(<eager.status)
    echo 0 >with.status
    AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/summary under "$@" >with.out 2>with.err || echo $? >with.status
    [ -s eager.out ] || [ "$without" -ne 0 ]
    [ "$without" -ne 124 ]
    told with | diff eager.told -
}

# A figure of the summary: the first number behind the text, a basic regular expression.
figure() {
    local what=${1//./[^$'\n']} text=
    what=${what//(/\\(} what=${what//)/\\)}
    [ ! -e summary ] || text=$(<summary)
    if [[ $text =~ $what:?\ ([0-9]+) ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi
}

# at_least WHAT MOST|LEAST...: comparison of whole numbers that shows them when it fails.
at_least() {
    echo "$1: $2, at least $3 is wanted"
    [ "$2" -ge "$3" ]
}

# The share of ops that went by graphs, in whole per cent.
replayed_share() {
    sed -n 's/.*replayed .* of .* ops (\([0-9]*\)\.[0-9]*%).*/\1/p' summary
}

# In thousandths, as the summary has it.
times_as_fast() {
    sed -n 's/.*compared with eager: 0*\([0-9]*\)\.\([0-9]*\) times.*/\1\2/p' summary | sed 's/^0*//'
}

# as_fast_as_eager COMMAND...: the summary says so, of a program that is decided by its own work and takes a number of steps
# as its last argument. The spans and the program get longer until there are enough spans with enough ops to be compared.
as_fast_as_eager() {
    local times pairs
    for times in 1 4 16; do # on a busy machine the program has no processor for whole spans
        AUTOGRAPH_COMPARE_MS=$((5 * times)) same "$@" $((4000 * times))
        cat summary
        pairs=$(sed -n 's/.*compared with eager: .* (half of \([0-9]*\) pairs.*/\1/p' summary)
        [ "${pairs:-0}" -lt 5 ] || break
    done
    at_least replayed "$(figure replayed)" 100
    at_least pairs "${pairs:-0}" 5
    at_least "times as fast, at most 1.5" 1500 "$(times_as_fast)"
}

# sees_its_flag_within US [PERCENT]: the program of `faults spin` under the library, until it waits for less than so many us
# for its flag, five times at most: whoever else runs on the machine makes it look later, never sooner. A try in which its
# thread had less than PERCENT of a processor while it waited says nothing; where most are such, the test is skipped.
sees_its_flag_within() {
    local try mean eager_mean ran judged=0
    for try in 1 2 3 4 5; do
        rm -f eager.asked # the machine is as busy for both
        same "$faults" spin
        mean=$(sed -n 's/^MEASURED .*mean \([0-9]*\)\..*/\1/p' with.out)
        ran=$(sed -n 's/^MEASURED .*ran \([0-9]*\) .*/\1/p' with.out)
        eager_mean=$(sed -n 's/^MEASURED .*mean \([0-9]*\)\..*/\1/p' eager.out)
        echo "mean $mean us in try $try, the thread ran $ran % of that; eagerly $eager_mean us, less than $1 and twice that is wanted"
        if [ "$mean" -lt $(($1 + 2 * eager_mean)) ]; then return 0; fi
        [ "$ran" -lt "${2-0}" ] || judged=$((judged + 1))
    done
    [ $judged -ge 3 ] || skip "the program's thread has to wait for a processor"
    return 1
}

# A negation that fails the test wherever it stands ("! command" only does as the last line).
none() {
    ! "$@"
}

# Lines of a file, or 0 where it is not there.
lines_of() {
    if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi
}
