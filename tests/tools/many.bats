#!/usr/bin/env bats
# Several processes of one program: their dumps together, and their live figures.

bats_require_minimum_version 1.5.0
load common.bash

ranked() { # NAME RANK PROGRAM ARGS...: a rank's dump, NAME.rankRANK. In whole graphs: how they are cut hangs on the host's pace.
    local name=$1 rank=$2
    shift 2
    AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_MAX_DEFER_US=100000 RANK=$rank traced "$PWD/$name.rank%r" "$@"
}

setup_file() {
    load common.bash
    cd "$BATS_FILE_TMPDIR" || return 1
    for rank in 0 1 10; do
        ranked heat $rank heat_driver --reps=1 --most-steps=400
    done
    ranked never 0 loop_driver --never-repeat --steps=50 --reps=1
    ranked loop 1 loop_driver --steps=100 --reps=1
    for name in alone other; do
        AUTOGRAPH_TEST_BUILD=inline traced "$PWD/$name" loop_driver --steps=100 --reps=1
    done
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

@test "report of several dumps: a row for each rank, in order, and all of them together" {
    autograph report heat.rank10 heat.rank1 heat.rank0 -n 0 -f json > all.json
    for rank in 0 1 10; do autograph report heat.rank$rank -n 0 -f json > one.$rank.json; done
    python3 - <<'PY'
import json
all, ones = json.load(open("all.json")), [json.load(open(f"one.{r}.json")) for r in (0, 1, 10)]
assert list(all)[0] == "processes" and "processes" not in ones[0]
rows = all["processes"]
assert [r["rank"] for r in rows] == ["0", "1", "10"], rows
assert [r["launches"] for r in rows] == [o["launches"][0]["count"] for o in ones], rows
for i, row in enumerate(all["launches"]):
    assert row["count"] == sum(o["launches"][i]["count"] for o in ones), row
for name, key in (("flushes", "reason"), ("eager", "reason")):
    for row in all[name]:
        assert row["launches"] == sum(r["launches"] for o in ones for r in o[name] if r[key] == row[key]), row
# another's call ends nobody's sequences
calls = {}
for o in ones:
    for r in o["sync_points"]:
        t = calls.setdefault(r["call"], {})
        t[id(o)] = (r["times"], r["launches_between"])
for r in all["sync_points"]:
    each = calls[r["call"]].values()
    times = sum(t for t, _ in each)
    assert r["times"] == times
    assert abs(r["launches_between"] - sum(t * n for t, n in each) / times) < 0.2, (r, each)
# what all ranks repeat is one sequence
most = max(all["sequences"], key=lambda r: r["launches_carried"])
assert most["processes"] == 3 and "heat_inner" in most["kernels"], most
assert sum(r["launches_carried"] for r in all["sequences"]) == sum(r["launches_carried"] for o in ones for r in o["sequences"])
assert len(all["streams"]) == sum(len(o["streams"]) for o in ones)
told = {r["name"]: r["value"] for r in all["process"]}
assert told["rank"] == "0, 1, 10" and told["pid"].count(", ") == 2 and told["program"].count("heat") == 1, told
PY
    run autograph report heat.rank0 heat.rank7
    [ "$status" -eq 1 ]
    [ "$output" = "autograph: cannot read heat.rank7: No such file or directory" ]
    for verb in report "html -o page" "diff heat.rank10 --after"; do
        run autograph $verb heat.rank1 heat.rank0 ./heat.rank1
        [ "$status" -eq 1 ]
        [ "$output" = "autograph: ./heat.rank1 is the same dump as heat.rank1: it would count twice" ]
        [ ! -e page ]
    done
}

@test "report of several dumps: programs that differ, at the same time, keep what is theirs" {
    for name in heat.rank0 loop.rank1; do # both begin at once, and their sync points are those of all their streams
        python3 - $name together.$name <<'PY'
import struct, sys, zlib
b = bytearray(open(sys.argv[1], "rb").read())
chunks, at = [], 48
while at + 16 <= len(b):
    mark, typ, n, _ = struct.unpack("<4s4sII", b[at:at + 16])
    chunks.append((mark, typ, b[at + 16:at + 16 + n]))
    at += 16 + (n + 7 & ~7)
events = [(p, i) for _, typ, p in chunks if typ == b"EVTS" for i in range(8, len(p), 32)]
first = min(struct.unpack_from("<Q", p, i)[0] for p, i in events)
for p, i in events:
    if p[i + 8] == 7:
        struct.pack_into("<I", p, i + 12, 0)
struct.pack_into("<QQ", b, 16, 10**18, first)
out = b[:48]
for mark, typ, p in chunks:
    head = typ + struct.pack("<I", len(p))
    out += mark + head + struct.pack("<I", zlib.crc32(head + p)) + p + b"\0" * (-len(p) % 8)
open(sys.argv[2], "wb").write(out)
PY
        autograph report together.$name -n 0 -f json > $name.json
    done
    autograph report together.* -n 0 -f json > both.json
    python3 - <<'PY'
import json
both, ones = json.load(open("both.json")), [json.load(open(n + ".json")) for n in ("heat.rank0", "loop.rank1")]
# what ends a process is counted for both
rows = lambda documents, table, *keys: sorted(tuple(r[k] for k in keys) for d in documents for r in d[table] if r.get("launches_between") != 0)
for table, keys in (("streams", ("kind", "launches", "graph_launches")), ("sync_points", ("call", "times", "launches_between", "made_by")),
                    ("sequences", ("kernels", "length", "launches_carried", "updates_a_graph_launch"))):
    assert rows([both], table, *keys) == rows(ones, table, *keys), (rows([both], table, *keys), rows(ones, table, *keys))
seconds = lambda d: [r["value"] for r in d["process"] if r["name"] == "seconds"][0]
assert abs(seconds(both) - max(map(seconds, ones))) < 0.002, "both began at once"
PY
}

@test "report of several dumps: one that is damaged makes it 1, and is named" {
    cp heat.rank1 damaged
    printf '\xff\xff\xff' | dd of=damaged bs=1 seek=1000 conv=notrunc status=none
    run --separate-stderr autograph report heat.rank0 damaged
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"autograph: damaged: damaged: "* ]]
    [[ "$stderr" != *"heat.rank0"* ]]
}

@test "html of several dumps: a row for each rank" {
    autograph html heat.rank0 heat.rank1 -o page.html
    grep -q '<h2 id="processes">' page.html
    [ "$(sed -n '/id="processes"/,/<\/table>/p' page.html | grep -c '>heat_driver</td>')" -eq 2 ]
    grep -q 'graphs of one of 2 processes' page.html
    autograph html heat.rank0 | no grep -q 'id="processes"'
}

@test "html of several dumps: the graphs of the process that launched them most" {
    cd "$BATS_TEST_TMPDIR"
    traced "$PWD/short" loop_driver --sync=step --kernels=24 --steps=1 --reps=2
    traced "$PWD/long" loop_driver --sync=step --kernels=24 --steps=40 --reps=2
    autograph report short -f json | holds "any(s['length'] == 24 and s['graphs'] and not s['graph_launches'] for s in d['sequences'])"
    autograph html short long -o page.html
    python3 - <<'PY'
import re
figures = re.findall("<figure>.*?</figure>", open("page.html").read(), re.S)
assert figures and all("<rect" in figure for figure in figures), figures
PY
}

@test "diff of two sets: ranks with ranks" {
    autograph diff never.rank0 heat.rank1 --after loop.rank1 heat.rank0 -f json > diff.json
    python3 - <<'PY'
import json
d = json.load(open("diff.json"))
rows = {r["process"]: r for r in d["ranks"]}
assert list(rows) == ["rank 0", "rank 1"], rows
assert rows["rank 0"]["by_graphs_before_percent"] < 20 < 80 < rows["rank 0"]["by_graphs_after_percent"], rows
assert rows["rank 1"]["launches_before"] < 3000 < rows["rank 1"]["launches_after"], rows
total = [r for r in d["totals"] if r["what"] == "launches"][0]
assert total["before"] == sum(r["launches_before"] for r in rows.values()), total
assert total["after"] == sum(r["launches_after"] for r in rows.values()), total
PY
    # a rank that only one of them has; order where ranks are not known
    autograph diff heat.rank0 heat.rank1 --after heat.rank0 -f json |
        holds "[(r['process'], r['launches_after']) for r in d['ranks']][1] == ('rank 1', '')"
    autograph diff alone other --after alone other -f json | holds "[r['change_percent'] for r in d['ranks']] == ['+0.0'] * 2"
    autograph diff heat.rank0 heat.rank1 -f json | holds "'ranks' not in d"
    run autograph diff heat.rank0 heat.rank1 heat.rank10
    [ "$status" -eq 2 ]
    [[ "$output" == *"which dumps are before, and which after?"* ]]
    for wrong in "--after heat.rank0" "heat.rank0 --after" "heat.rank0 heat.rank1 --after" "heat.rank0 --after heat.rank1 --after heat.rank10"; do
        run autograph diff $wrong
        [ "$status" -eq 2 ]
    done
}

@test "top: what a process started, a row for each" {
    cat > launcher.sh <<'SH'
RANK=0 "$0" --steps=100000000 --reps=1 &
RANK=3 "$0" --steps=100000000 --reps=1 &
sleep 1000 & # one that has nothing to do with CUDA
trap 'kill $(jobs -p)' EXIT
wait
SH
    LD_PRELOAD="$PRELOAD" bash -c 'exec bash -c "$(cat launcher.sh)" "$0"' "$AG_BUILD/examples/loop_driver" >/dev/null 3>&- &
    launcher=$!
    run python3 - "$AG_COMMAND" $launcher <<'PY'
import json, subprocess, sys, time
end = time.monotonic() + 60 # to start, and to get a share of the processor
while True:
    told = subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "1", "-d", "0.1", "-f", "json"], capture_output=True, text=True)
    rows = json.loads(told.stdout)["processes"] if told.returncode == 0 else []
    ranks = {r["rank"]: r for r in rows if r["launches"]}
    if set(ranks) == {"0", "3"} and all(r["by_graphs_percent"] > 50 and r["each_second"] > 1000 for r in ranks.values()):
        break
    assert time.monotonic() < end, told
assert rows[0]["pid"] == int(sys.argv[2]) and rows[0]["launches"] is None and len(rows) == 3, rows
assert [r["program"] for r in rows] == ["bash", "loop_driver", "loop_driver"], rows
assert [r["parent"] for r in rows[1:]] == [rows[0]["pid"]] * 2, rows
sums = {r["what"]: r["total"] for r in json.loads(told.stdout)["live"]}
assert sums["launches"] == sum(r["launches"] for r in ranks.values()), (sums, rows)
text = subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "1", "-d", "0.1"], capture_output=True, text=True).stdout
assert text.startswith(" 2 processes: "), text
PY
    kill $launcher
    wait $launcher || true
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "top: a child of fork without CUDA has no row for its parent's figures" {
    cat > fork.py <<'PY'
import ctypes, os, sys
from ctypes import byref, c_int, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(byref(context), 0) and not cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemAlloc_v2(byref(memory), ctypes.c_size_t(4096))
assert not cuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(16))
if os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
print("ready", flush=True)
os.read(0, 1)
PY
    mkfifo pace
    LD_PRELOAD="$PRELOAD" python3 fork.py <pace >forked 3>&- &
    exec 8>pace
    wait_until grep -q ready forked
    run autograph top $! -n 1 -d 0.1 -f json
    exec 8>&-
    wait $!
    [ "$status" -eq 0 ]
    holds "len(d['processes']) == 1" <<<"$output"
}
