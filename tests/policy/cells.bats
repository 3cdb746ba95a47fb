#!/usr/bin/env bats
# The policy in a model of host and GPU (model_cells.c): microseconds an op, from 0.6 to 1.2 s, stay within 3 % of what they were
# when this was written. AG_MODEL names the built model_cells.

bats_require_minimum_version 1.5.0

setup_file() {
    [ -x "$AG_MODEL" ] || { echo "set AG_MODEL to the built model_cells" >&2; return 1; }
}

# takes WAY CELL=MOST...: with launches by the program's own thread (inline) or by a submitter (thread).
takes() {
    local way=$1 cell
    shift
    "$AG_MODEL" 3 0.1 1 "$way" "${@%=*}" >"$BATS_TEST_TMPDIR/cells"
    cat "$BATS_TEST_TMPDIR/cells"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/cells")" -eq $# ]
    for cell; do
        awk -v name="${cell%=*}" -v most="${cell#*=}" '$1 == name { found = $6 <= most } END { exit !found }' "$BATS_TEST_TMPDIR/cells" ||
            { echo "${cell%=*} takes more than ${cell#*=} us"; return 1; }
    done
}

@test "cells of the matrix in a model: launches by the program's own thread" {
    takes inline 1:0:20:1=1.39 1:3:20:1=3.97 1:3:20:0=3.47 2:3:1:1=11.0 1:10:5:1=12.85 5:10:20:1=11.77 5:10:20:0=10.82 50:50:20:1=57.0
}

@test "cells of the matrix in a model: launches by a submitter" {
    takes thread 1:0:20:1=1.40 1:3:20:1=3.65 1:3:20:0=3.32 2:3:1:1=10.7 1:10:5:1=11.84 5:10:20:1=11.07 5:10:20:0=10.61 50:50:20:1=55.2
}
