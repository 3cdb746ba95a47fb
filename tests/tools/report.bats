#!/usr/bin/env bats
# What the verbs make of dumps of two examples on the simulated driver.

load common.bash

setup_file() {
    load common.bash
    trace_examples
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

@test "report: coverage, sequences and what ends them" {
    autograph report loop -f json | holds "d['launches'][1]['share_percent'] > 90"
    autograph report loop -f json | holds "d['sequences'] and any('short_kernel' in r['kernels'] for r in d['sequences'])"
    autograph report loop -f json | holds "d['sync_points'][0]['call'] == 'cuStreamSynchronize'"
    autograph report whole -f json | holds "any('(heat_inner, heat_edge) x10' in r['kernels'] for r in d['sequences'])"
    autograph report heat -f json | holds "d['sync_points'][0]['call'].startswith('cuMemcpyDtoH')"
    autograph report heat -f json | holds "abs(d['sync_points'][0]['launches_between'] - 22) < 2"
}

@test "a loop of one kernel is cut where its arguments come again" {
    [ -z "${AG_RUNTIME:-}" ] || skip "a sanitizer makes the host so slow that no graph holds six launches"
    # in whole graphs: cut by the pace of the host it may share graphs of another length, which then count for that
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=100000 \
        traced "$PWD/six" loop_driver --sync=none --kernels=6 --steps=4000 --reps=1
    autograph report six -f json | holds "max(d['sequences'], key=lambda r: r['launches_carried'])['length'] == 60"
}

@test "report: eager launches are timed" {
    autograph report heat -f json | holds "any(r['work'] == 'eager launch (median)' and r['each_us'] > 0 for r in d['work'])"
}

@test "report: who makes the calls that end sequences" {
    [ -z "${AG_RUNTIME:-}" ] || skip "a sanitizer's runtime stands between"
    autograph report heat -f json | holds "d['sync_points'][0]['made_by'].endswith(' in heat_driver')"
    autograph report heat -f json | holds "not d['sync_points'][0]['made_by'].startswith('+0x')"
}

@test "report: flushes, ops that cannot be recorded and departures have a place in the program" {
    [ -z "${AG_RUNTIME:-}" ] || skip "a sanitizer's runtime stands between"
    autograph report reasons -f json > reasons.json
    holds "[r for r in d['flushes'] if r['reason'] == 'cuStreamQuery'][0]['made_by'].startswith('impatient in tools_reasons, ')" < reasons.json
    holds "[r for r in d['unrecordable'] if r['reason'].startswith('a copy that overlaps')][0]['made_by'].startswith('elsewhere in tools_reasons, ')" < reasons.json
    holds "d['departures'][0]['launch'] == 'copy' and d['departures'][0]['share_percent'] > 90" < reasons.json
    holds "d['departures'][0]['times'] <= [r for r in d['flushes'] if r['reason'] == 'mismatch'][0]['times']" < reasons.json
}

@test "report: each launch that was submitted at once has a reason" {
    for name in loop heat none never changing reasons; do
        autograph report $name -n 0 -f json > why.json
        holds "sum(r['launches'] for r in d['eager']) == [r['count'] for r in d['launches'] if r['launches'] == 'submitted at once'][0] > 0" < why.json
    done
    autograph report never -f json | holds "d['eager'][0]['reason'].startswith('not known') and d['eager'][0]['share_percent'] > 10"
    # a step without a loop in it, which would be known at once
    AUTOGRAPH_TEST_MIN_REPEATS=1500 traced "$PWD/seldom" cg_driver --reps=1
    autograph report seldom -f json | holds "d['eager'][0]['reason'].endswith('too seldom for a graph') and d['eager'][0]['share_percent'] > 50"
    SIMCUDA_FAIL="cuGraphInstantiateWithFlags:*=2" traced "$PWD/failed" loop_driver --steps=90 --reps=1
    autograph report failed -f json | holds "any(r['reason'] == 'its graph could not be built' for r in d['eager'])"
}

# costly FROM TO WHICH: a dump again, whose graph launches took 1 ms each: all, or those of the most used graph.
costly() {
    python3 - "$@" <<'PY'
import struct, sys, zlib
b = open(sys.argv[1], "rb").read()
chunks, at = [], 48
while at < len(b):
    mark, typ, n, _ = struct.unpack("<4s4sII", b[at:at + 16])
    chunks.append([mark, typ, bytearray(b[at + 16:at + 16 + n])])
    at += 16 + (n + 7 & ~7)
launches = [(p, i) for _, typ, p in chunks if typ == b"EVTS" for i in range(8, len(p), 32) if p[i + 8] == 3]
graphs = [struct.unpack_from("<I", p, i + 16)[0] for p, i in launches]
most = max(graphs, key=graphs.count)
for (p, i), graph in zip(launches, graphs):
    if sys.argv[3] == "all" or graph == most:
        struct.pack_into("<I", p, i + 20, 1000000)
out = b[:48]
for mark, typ, p in chunks:
    head = typ + struct.pack("<I", len(p))
    out += mark + head + struct.pack("<I", zlib.crc32(head + p)) + p + b"\0" * (-len(p) % 8)
open(sys.argv[2], "wb").write(out)
PY
}

@test "report: what sequences save and lose is shares of both together" {
    costly reasons all-slow all
    costly reasons one-slow most
    autograph report reasons -n 0 -f json | holds "len(d['sequences']) > 1"
    for name in reasons all-slow one-slow; do
        autograph report $name -n 0 -f json > saved.json
        holds "abs(sum(abs(r['saved_percent']) for r in d['sequences']) - 100) < 0.06 * len(d['sequences'])" < saved.json
        holds "all(r['saved_percent'] * r['saved_us'] >= 0 for r in d['sequences'])" < saved.json
    done
    autograph report all-slow -n 0 -f json | holds "sum(r['saved_percent'] for r in d['sequences']) < -99"
    autograph report one-slow -n 0 -f json | holds "d['sequences'][-1]['saved_percent'] < -50"
    autograph report all-slow | grep -q 'more on the host than eager launches would have'
}

@test "report: updated arguments are counted" {
    autograph report changing -f json | holds "max(d['sequences'], key=lambda r: r['launches_carried'])['updates_a_graph_launch'] > 1"
    # in whole graphs, built at once: cut by the pace of the host, some would have to share
    AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=1000000 \
        traced "$PWD/same" loop_driver --steps=100 --reps=2
    autograph report same -f json | holds "max(d['sequences'], key=lambda r: r['launches_carried'])['updates_a_graph_launch'] < 0.1"
}

@test "report: kernels of templates are told apart by what they are made of" {
    "$AG_BUILD/tests/tools/tools_large" named 4
    autograph report named -n 1 -f json | holds "'vectorized_elementwise_kernel<Functor' in d['sequences'][0]['kernels']"
    autograph report named -n 1 | grep -q 'vectorized_elementwise_kernel<Functor[0-9]*>, vector'
    [ "$(autograph report named | wc -L)" -lt 500 ]
    # the same names, changed: an inner functor, a lambda of a function, no type among the arguments, a short list
    python3 - <<'PY'
import struct, zlib
names = [b"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_",
         b"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_11silu_kernelERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_",
         b"_Z7forwardIffffLi8ELb0ELb0EEvPT_", b"_Z3addIfEvPT_", b"ampere_sgemm_32x128_tn"]
b = open("named", "rb").read()
out, at, n = [b[:48]], 48, 0
while at < len(b):
    mark, typ, size, crc = struct.unpack("<4s4sII", b[at:at + 16])
    p = b[at + 16:at + 16 + size]
    if typ == b"STRG" and p[8:].startswith(b"_Z"):
        p = struct.pack("<II", struct.unpack("<I", p[:4])[0], len(names[n % 5])) + names[n % 5]
        n += 1
    out.append(mark + typ + struct.pack("<II", len(p), zlib.crc32(typ + struct.pack("<I", len(p)) + p)) + p + b"\0" * (-len(p) % 8))
    at += 16 + (size + 7 & ~7)
open("renamed", "wb").write(b"".join(out))
PY
    autograph report renamed -n 1 -f json | holds "set(d['sequences'][0]['kernels'].split(' x')[0].strip('()').split(', ')[:5]) == {'reduce_kernel<ReduceOp<MeanOps>>', 'vectorized_elementwise_kernel<silu_kernel>', 'forward<float>', 'add<float>', 'ampere_sgemm_32x128_tn'}"
}

@test "report: advice" {
    autograph report kernel | grep -q 'cuStreamSynchronize comes after every 1.0 launches'
    autograph report kernel | grep -q 'wait once for several of them'
    autograph report loop > out.txt
    no grep -q 'comes after every' out.txt
    autograph report observed | grep -q 'only observed. `autograph replay observed`'
}

@test "report: text has titles, headings and ids" {
    run autograph report loop
    [ "$status" -eq 0 ]
    [[ "$output" == *" ** Sequences, by the host time they saved (sequences):"* ]]
    [[ "$output" =~ driver\ +"for CUDA 13.0" ]]
    [[ "$output" == *"% of 8000 launches went as graphs"* || "$output" == *"launches went as graphs"* ]]
}

@test "report: --top" {
    [ "$(autograph report heat -n 1 -f json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["sequences"]))')" -eq 1 ]
}

@test "tables as CSV and as JSON lines hold the same as JSON" {
    AUTOGRAPH_TRACE="$PWD/quoted" PRELOAD="$PRELOAD" \
        bash -c 'export LD_PRELOAD=$PRELOAD; exec -a "a \"quoted\", name" "$0" --reps=1' \
        "$AG_BUILD/examples/heat_driver"
    autograph report quoted -f json > t.json
    grep -q 'quoted' t.json
    for table in $(python3 -c 'import json; print(*json.load(open("t.json")))'); do
        autograph report quoted -f csv --table="$table" > t.$table.csv
    done
    autograph report quoted -f csv | cmp - t.sequences.csv # without a name
    run autograph report quoted -f csv --table=nothing -o t.nothing.csv
    [ "$status" -eq 1 ]
    [[ "$output" == "autograph: there is no table nothing here; there are process, launches, "* ]]
    autograph report quoted --table=launches -f json | holds "list(d) == ['launches']"
    [ "$(autograph report quoted --table=launches | grep -c '^ \*\* ')" -eq 1 ]
    autograph report quoted -f jsonl > t.jsonl
    python3 - <<'PY'
import csv, json
d = json.load(open("t.json"))
lines = [json.loads(l) for l in open("t.jsonl")]
assert len(lines) == sum(len(v) for v in d.values()), "rows"
for l in lines:
    t = l.pop("table")
    assert l in d[t], (t, l)
for name, rows in d.items():
    t = list(csv.reader(open(f"t.{name}.csv")))
    assert all(key.isidentifier() and key.islower() for key in t[0]), t[0]
    assert len(t) == len(rows) + 1, name
    for r, cells in zip(rows, t[1:]):
        assert list(r.keys()) == t[0], name
        for v, c in zip(r.values(), cells):
            assert (float(c) == v) if isinstance(v, (int, float)) else c == v, (name, v, c)
PY
}

@test "every verb that has tables has them in every format" {
    for verb in "report loop" "graphs loop" "diff loop heat" "replay loop" env doctor; do
        for format in text csv json jsonl; do
            autograph $verb --format=$format -o "out.$format" || [ "$verb" = doctor ]
        done
        python3 - "$verb" <<'PY'
import csv, json, sys
text, document = open("out.text").read(), json.load(open("out.json"))
lines = [json.loads(l) for l in open("out.jsonl")]
rows = sum(len(t) for t in document.values())
assert rows and len(lines) == rows, (sys.argv[1], rows, len(lines))
assert {l["table"] for l in lines} == {k for k, v in document.items() if v}
assert all(f"({name}):" in text for name in document), sys.argv[1]
table = list(csv.reader(open("out.csv")))
assert any(table[0] == list(t[0]) and len(table) == len(t) + 1 for t in document.values() if t), table
PY
    done
    run autograph html loop -f json
    [ "$status" -eq 2 ]
}

@test "diff: the same twice, and a program that lost its repetition" {
    autograph diff loop loop | grep -q 'Coverage is the same'
    autograph diff loop loop --fail >/dev/null
    autograph diff loop never | grep -q 'Coverage fell'
    run autograph diff loop never --fail
    [ "$status" -eq 1 ]
    autograph diff never loop --fail | grep -q 'Coverage rose'
    autograph diff loop heat -f json | holds "any('heat_inner' in r['kernel'] and r['launches_before'] == 0 for r in d['kernels'])"
}

@test "replay: what an observed run would have gained" {
    autograph report observed -f json | holds "d['launches'][1]['count'] == 0"
    # whether graphs are of use depends on the machine's pace, which a sanitizer slows down
    autograph replay observed --profit=0 -f json | holds "d['replay'][1]['share_percent'] > 80"
    autograph replay never -f json | holds "d['replay'][1]['share_percent'] < 20"
    all=$(autograph report observed -f json | python3 -c 'import json,sys; print(json.load(sys.stdin)["launches"][0]["count"])')
    autograph replay observed -f json | holds "d['replay'][0]['count'] == $all"
    # four ops a graph, and fewer where a busy machine stopped the program in the middle of one
    autograph replay observed --chunk=4 --profit=0 -f json | holds "3 < d['replay'][1]['count'] / d['replay'][5]['count'] <= 4"
}

# foretold NAME POLICY-OPTION...: what is foretold of a run that only observes is what a run does that replays, with
# the same settings. Both are in the files foretold.json and real.json.
foretold() {
    local name=$1 args
    shift
    case $name in
    loop) args=(loop_driver --steps=200 --reps=2) ;;
    heat) args=(heat_driver) ;;
    none) args=(loop_driver --sync=none --steps=200 --reps=2) ;;
    esac
    AUTOGRAPH=observe traced "$PWD/foretold.$name" "${args[@]}" || return 1
    autograph replay "foretold.$name" "$@" -f json > foretold.json || return 1
    AUTOGRAPH_TEST_BUILD=inline traced "$PWD/real.$name" "${args[@]}" || return 1
    autograph report "real.$name" -f json > real.json || return 1
    python3 - "$name" <<'PY'
import json, sys
told, real = json.load(open("foretold.json")), json.load(open("real.json"))
rows = {r["what"]: r for r in told["replay"]}
carried = rows["replayed by graphs"]["share_percent"] + rows["by shorter graphs"]["share_percent"]
done = real["launches"][1]["share_percent"] + real["launches"][2]["share_percent"]
print(sys.argv[1], carried, done)
assert -2 < carried - done < 5, (carried, done) # both with graphs that are there at once
assert 0 < rows["until the first replay"]["count"] < 200
assert rows["nodes in them"]["count"] >= rows["graphs built"]["count"] > 0
assert rows["departures from a sequence"]["share_percent"] < 0.5
cost = {r["what"]: (r["value"], r["unit"]) for r in told["cost"]}
memory, unit = cost["most memory, graphs and policy"]
assert unit == "KiB" and 64 < memory < 8192, cost
assert cost["policy's time for a launch"][1] == "ns" and cost["policy's time for a launch"][0] > 0, cost
PY
}

@test "replay: foretells what a run that replays does" {
    # In whole graphs, which are always worth it, and with nobody who is in a hurry: nothing hangs on the clock.
    export AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=1000000
    for name in loop heat none; do
        foretold $name --profit=0 --chunk=1024 --max-defer-us=1000000
    done
}

# The pace of the host decides here how sequences are cut, what is worth a graph and what waits too long. It is the same
# in both runs where the machine is left alone meanwhile: one try of ten.
@test "replay: foretells what a run that replays does at its own pace" {
    [ -z "${AG_RUNTIME:-}" ] || skip "a sanitizer makes the host slow: whether graphs are of use then is chance"
    export AUTOGRAPH_TEST_PROFIT=1
    for name in loop heat none; do
        for try in 1 2 3 4 5 6 7 8 9 10; do
            if foretold $name --profit=1 && holds "[r['value'] for r in d['cost'] if r['unit'] == 'ns'][0] < 2000" < foretold.json; then
                continue 2
            fi
        done
        return 1
    done
}

@test "replay: the budget and the watchdog are played too" {
    "$AG_BUILD/tests/tools/tools_large" many 8
    autograph replay many --memory-mb=4 -f json > small.json
    holds "[r for r in d['cost'] if r['unit'] == 'KiB'][0]['value'] < 4096 + 2048" < small.json
    autograph replay many -f json | holds "[r for r in d['cost'] if r['unit'] == 'KiB'][0]['value'] > 3 * 4096"
    # 20 ops of 300 us each in a step: nothing can wait for a whole graph of them. All other events take no time, as
    # the run that was recorded decided how many there are.
    slow() {
        python3 - loop "$1" <<'PY'
import struct, sys, zlib
b = open(sys.argv[1], "rb").read()
out, at, times = b[:48], 48, 0
while at < len(b):
    mark, typ, n, crc = struct.unpack("<4s4sII", b[at:at + 16])
    p = bytearray(b[at + 16:at + 16 + n])
    if typ == b"EVTS":
        for i in range(8, len(p), 32):
            times += 300000 if p[i + 8] == 1 else 0
            p[i:i + 8] = struct.pack("<Q", 10**12 + times)
    out += mark + typ + struct.pack("<II", len(p), zlib.crc32(typ + struct.pack("<I", len(p)) + p)) + p
    out += b"\0" * (-len(p) % 8)
    at += 16 + (n + 7 & ~7)
open(sys.argv[2], "wb").write(out)
PY
    }
    slow slowly
    # the pace is learned: graphs of one op, and nothing is held back
    autograph replay slowly -f json | holds "d['replay'][3]['share_percent'] == 0 and d['replay'][1]['share_percent'] > 90"
    # graphs of four cannot wait either, unless the watchdog lets them: some are flushed, until the pauses are learned
    autograph replay slowly --chunk=4 -f json |
        holds "0 < d['replay'][3]['count'] < 100 and d['replay'][5]['share_percent'] > 45"
    autograph replay slowly --chunk=4 --max-defer-us=100000 -f json |
        holds "d['replay'][3]['count'] == 0 and d['replay'][5]['share_percent'] < 30"
}

@test "wrong calls are told apart from failures" {
    run autograph report
    [ "$status" -eq 2 ]
    run autograph report loop -f xml
    [ "$status" -eq 2 ]
    run autograph report nothing-there
    [ "$status" -eq 1 ]
    [ "$output" = "autograph: cannot read nothing-there: No such file or directory" ]
    run autograph report loop -o /nowhere/x
    [ "$status" -eq 1 ]
    for verb in run report timeline graphs html diff replay top env doctor; do
        autograph "$verb" --help | grep -q "Usage: autograph $verb"
    done
}

@test "a run in which nothing was replayed: report, html, diff and top say why and what to do" {
    SIMCUDA_VERSION=12030 traced "$PWD/old" loop_driver --steps=200 --reps=2 2>/dev/null
    autograph report old > old.txt
    sed -n 2p old.txt | grep -q 'Why not more: the driver is older than CUDA 12.4. What to do: install a driver'
    grep -q '^ *Little was replayed: the driver is older' old.txt
    no grep -qi 'nothing to show' old.txt
    autograph report old -f json | holds "{r['name']: r['value'] for r in d['process']}['why not more'].startswith('the driver is older')"
    autograph html old -o old.html
    grep -q 'id="why"><strong>Why not more:</strong> the driver is older' old.html
    no grep -qi 'nothing to show' old.html
    autograph diff loop old > diff.txt
    grep -q 'Why not more after: the driver is older' diff.txt
    no grep -q 'Why not more before' diff.txt
    no grep -q 'Why not more' <(autograph report loop)
    autograph report observed | sed -n 2p | grep -q 'AUTOGRAPH=observe replays nothing'
    # one that was killed had no time to say it
    SIMCUDA_VERSION=12030 LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE=$PWD/killed \
        "$AG_BUILD/examples/loop_driver" --steps=100000000 --reps=1 2> killed.err 3>&- &
    wait_until larger killed 200000
    wait_until grep -q 'replayed 0 of' killed.err # but it said its line as soon as it was due
    run autograph top $! -n 1 -d 0.3
    kill -9 $!
    wait $! || true
    [[ "$output" == *"Why not more: the driver is older than CUDA 12.4. What to do: "* ]]
    [ "$(wc -l < killed.err)" -eq 1 ]
    autograph report killed 2>/dev/null | sed -n 2p | grep -q 'Why not more: the driver is older'
}
