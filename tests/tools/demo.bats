#!/usr/bin/env bats
# The demo: what it prints of recorded figures, and without a GPU.

load common.bash

compare() { # a Python program that has examples/compare.py as `compare`
    PYTHONPATH="$AG_SOURCE/examples" PYTHONDONTWRITEBYTECODE=1 python3 -c "import compare
$1"
}

@test "on a GPU: ratios with their spread, by hand, and one sentence of what was gained" {
    run compare '
heat = {"eager": [4.0, 4.2, 4.1], "autograph": [2.0, 2.0, 2.05], "hand": [1.6, 2.1, 2.05]}
loop = {"eager": [3.0, 3.0, 3.0], "autograph": [3.0, 3.3, 2.9]}
slow = {"eager": [3.0, 3.0, 3.0], "autograph": [4.0, 4.0, 4.0]}
print(compare.GPU_HEAD)
print(compare.gpu_row("heat", heat, True))
print(compare.gpu_row("loop", loop, False))
print(compare.gained([heat, loop, slow]))'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(wc -L <<<"$output")" -le 80 ]
    [[ "${lines[1]}" =~ ^heat\ +4\.10\ +2\.00\ \ 2\.00\ \(2\.00-2\.10\)\ +2\.00\ \(2\.00-2\.50\)\ +yes$ ]]
    [[ "${lines[2]}" =~ ^loop\ +3\.00\ +3\.00\ \ 1\.00\ \(0\.91-1\.03\)\ +-\ +NO$ ]]
    [ "$(tr '\n' ' ' <<<"${lines[*]:3}")" = "Gained: 1 of 3 rows were faster in every round, 1 slower, the others neither; the middle row went 1.00 times as fast as without the library (from 0.75 to 2.00). " ]
    [ "$(compare 'print(compare.ROUNDS)')" -ge 7 ]
}

@test "without a GPU: launches, driver calls, the share replayed, and no ratios" {
    run python3 "$AG_SOURCE/examples/compare.py" simulated "$AG_BUILD" "$AG_LIBRARY" 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" =~ heat\ equation\ +10300\ +[0-9]+\ +9[0-9]\.[0-9]\ %\ \ yes ]]
    [[ "$output" =~ never\ repeat\ +8000\ +8000\ +0\.0\ %\ \ yes ]]
    none=$(grep -cE '[0-9]x|us ' <<<"$output" || true)
    [ "$none" -eq 0 ]
    [ "$(head -n -1 <<<"$output" | wc -L)" -le 80 ] # the last line has a path
    [[ "${lines[-1]}" == "A program of yours: "*"autograph ./app" ]]
}

@test "without a GPU: a driver call is a graph launch, a change in a graph, or a launch by itself" {
    run compare '
launches = [{"launches": n, "count": c} for n, c in (("all", 1000), ("replayed by graphs", 800),
    ("by shorter graphs, where a sequence was cut short", 50), ("submitted at once", 150))]
print(compare.simulated_row("x", launches, [{"launched": 30, "updates": 5}, {"launched": 10, "updates": 0}], False))'
    [[ "$output" =~ ^x\ +1000\ +195\ +85\.0\ %\ \ NO$ ]]
}
