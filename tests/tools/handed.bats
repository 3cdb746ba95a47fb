#!/usr/bin/env bats
# What the dump, the verbs and the summary say of chunks and single launches that the library's own thread makes
# (AUTOGRAPH_SUBMIT).

load common.bash

setup_file() {
    load common.bash
    cd "$BATS_FILE_TMPDIR" || return 1
    # a chunk a step, for which the program waits without a call; on a busy machine its thread may still be first
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        AUTOGRAPH_TEST_CHUNK=1024 handing handed "$AG_BUILD/tests/command/command_submit" patient 200
        [ "$(launched)" -lt 10 ] || break
    done
    handing ahead "$AG_BUILD/tests/command/command_submit" ahead 600
    handing refused "$AG_BUILD/tests/command/command_submit" graphs-refused 20
    AUTOGRAPH_SUBMIT=inline handing inline "$AG_BUILD/tests/command/command_submit" ahead 300
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

# handing DUMP PROGRAM...: with a dump and a summary. The watchdog is not to break chunks.
handing() {
    local dump=$1
    shift
    rm -f "$dump.summary" # to which another would be added
    AUTOGRAPH_SUBMIT=${AUTOGRAPH_SUBMIT:-thread} AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_MAX_DEFER_US=200000 \
        AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/$dump.summary AUTOGRAPH_TRACE=$PWD/$dump LD_PRELOAD=$PRELOAD "$@"
}

# Graph launches of the library's own thread, by the dump `handed`.
launched() {
    events handed 'len([1 for e in chunks if e.what == 1])'
}

# events DUMP EXPRESSION: evaluates it over all events of a dump, by time.
events() {
    python3 - "$@" <<'PY'
import bisect, collections, struct, sys
OP, CALL, GRAPH, UPDATE, FLUSH, TAKEN, TOOK = 1, 2, 3, 4, 6, 11, 12
Event = collections.namedtuple("Event", "time kind what reserved stream a b value thread")
b, at, events, size, counters = open(sys.argv[1], "rb").read(), 48, [], {}, {}
while at < len(b):
    mark, typ, n, _ = struct.unpack_from("<4s4sII", b, at)
    p = b[at + 16:at + 16 + n]
    if typ == b"EVTS":
        thread = struct.unpack_from("<I", p)[0]
        events += [Event(*e, thread) for e in struct.iter_unpack("<QBBHIIIQ", p[8:])]
    elif typ == b"GRPH":
        size[struct.unpack_from("<I", p)[0]] = struct.unpack_from("<I", p, 24)[0]
    elif typ == b"CNTS":
        counters = dict(text.split("=", 1) for text in p.decode().split("\0") if "=" in text)
    at += 16 + (n + 7 & ~7)
events.sort()
chunks = [e for e in events if e.kind == TAKEN and e.a]
singles = [e for e in events if e.kind == TAKEN and not e.a]

def behind(taken):
    """What the thread does with what it took."""
    rest = (e for e in events[bisect.bisect(events, taken):] if e.thread == taken.thread and e.kind != UPDATE)
    found = next(rest)
    return next(rest) if found.kind == GRAPH and found.value >> 32 else found

def times_fit():
    """A chunk is handed over behind its last op, and before the next op of its thread arrives."""
    held, arrived, taken = collections.defaultdict(list), collections.defaultdict(list), {}
    for e in events:
        if e.kind == OP:
            arrived[e.stream].append(e.time)
    for e in events:
        if e.kind == OP and e.what == 2:
            held[e.stream].append(e.time)
        elif e.kind == TAKEN and e.a:
            taken[e.thread] = e
        elif e.kind in (GRAPH, FLUSH) and not (e.kind == GRAPH and e.value >> 32):
            n = size[e.a] if e.kind == GRAPH else e.b - (e.value & 0xffffffff)
            t = taken.pop(e.thread, None)
            if t:
                handed, at = t.time - t.value, held[e.stream][n - 1]
                after = (arrived[e.stream] + [1 << 63])[bisect.bisect(arrived[e.stream], at)]
                if not (t.b == n and at <= handed <= min(t.time, after)):
                    return False
            del held[e.stream][:n]
    return True
print(eval(sys.argv[2]))
PY
}

@test "dump: each graph launch of a chunk from a ring says who took it out, and how long it waited" {
    [ "$(launched)" -ge 10 ]
    for dump in handed ahead; do
        [ "$(events $dump 'len(chunks) > 20')" = True ]
        [ "$(events $dump 'all(behind(e).kind == GRAPH and behind(e).a == e.a for e in chunks)')" = True ]
        [ "$(events $dump 'len(singles) > 20 and all(behind(e).kind == CALL and e.b == 1 for e in singles)')" = True ]
        [ "$(events $dump 'times_fit()')" = True ]
    done
    # the submitter is one thread, in which no op arrives, and all its launches are told
    [ "$(events handed 'len({e.thread for e in events if e.kind == TAKEN and e.what == 1})')" -eq 1 ]
    own='{e.thread for e in events if e.kind == TAKEN and e.what == 1}'
    [ "$(events handed "[e for e in events if e.thread in $own and e.kind == OP]")" = "[]" ]
    [ "$(events handed "len([e for e in events if e.thread in $own and e.kind == GRAPH])")" -eq "$(launched)" ]
    [ "$(events inline 'len([e for e in events if e.kind == GRAPH])')" -gt 20 ]
    [ "$(events inline '[e for e in events if e.kind == TAKEN]')" = "[]" ]
}

@test "dump: a chunk from a ring whose graph is refused goes by a flush" {
    [ "$(events refused '{behind(e).kind for e in chunks} in ({GRAPH, FLUSH}, {GRAPH})')" = True ]
    [ "$(events refused 'times_fit()')" = True ]
}

# said DUMP: the line of the summary that tells what the library cost.
said() {
    grep -o 'it cost .*' "$1.summary"
}

@test "summary: who launched, what processor time that took, and for what" {
    cat handed.summary inline.summary
    said handed | grep -Eq "; the library's own thread launched [0-9.]+% of the replayed ops and [0-9.]+% of the others and took [0-9.]+ ms of processor time"
    # as many as the dump tells
    ops=$(events handed 'sum(e.b for e in chunks if e.what == 1)') singles=$(events handed 'sum(e.what for e in singles)')
    grep -q "ops that the library's own thread launched by graphs: $ops\$" handed.summary
    grep -q "single launches by the library's own thread: $singles\$" handed.summary
    grep -q "of those that were timed: $(events handed 'sum(e.value for e in events if e.kind == TAKEN)')\$" handed.summary
    read -r replayed all <<<"$(sed -n 's/.*replayed \([0-9]*\) of \([0-9]*\) ops.*/\1 \2/p' handed.summary)"
    said handed | grep -q "launched $(python3 -c "print(f'{100 * $ops / $replayed:.1f}% of the replayed ops and {100 * $singles / ($all - $replayed):.1f}% of')")"
    no grep -q "own thread" inline.summary
    one=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/') # on one processor, `auto` hands nothing over
    AUTOGRAPH_SUBMIT=auto handing none taskset -c "$one" "$AG_BUILD/tests/command/command_cases" repeat 100
    said none | grep -q "; the library's own thread launched none of the replayed ops$"
}

# waited SUMMARY: the median, the longest wait and how many were timed.
waited() {
    said "$1" | sed -n 's/.*; what was handed over to it waited \([0-9.]*\) us in the median, \([0-9.]*\) us at most (of \([0-9]*\) that were timed)$/\1 \2 \3/p'
}

@test "summary: how long what was handed over waited: all of it while a dump is written" {
    for dump in handed ahead; do
        read -r median longest timed <<<"$(waited $dump)"
        [ "$timed" -eq "$(events $dump 'len(chunks) + len(singles)')" ]
        [ "$longest" = "$(events $dump 'format(max(e.value for e in chunks + singles) / 1e3, ".1f")')" ]
        events $dump "(lambda us: us[len(us) // 2])(sorted(e.value / 1e3 for e in chunks + singles))" >middle
        python3 -c "assert abs($median - $(cat middle)) <= 0.05 + max(0.064, $(cat middle) / 8)"
    done
    [ -z "$(waited inline)" ]
}

@test "summary: how long what was handed over waited: some of it without a dump" {
    counted() { sed -n "s/.*:   $1: \([0-9]*\)\$/\1/p" undumped.summary; }
    began=$(date +%s%N)
    AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_PROFIT=0 AUTOGRAPH_TEST_BUILD=inline AUTOGRAPH_STATS=2 AUTOGRAPH_LOG_FILE=$PWD/undumped.summary \
        LD_PRELOAD=$PRELOAD "$AG_BUILD/tests/command/command_submit" ahead 600
    ended=$(date +%s%N)
    cat undumped.summary
    handed=$(($(counted "graph launches left to the library's own thread") + $(counted "single launches left to the library's own thread")))
    read -r median longest timed <<<"$(waited undumped)"
    python3 - "$handed" "$timed" "$median" "$longest" $((ended - began)) "$(counted 'ns that chunks and single launches waited .*timed')" <<'PY'
import sys
handed, timed, median, longest, all_ns, sum_ns = map(float, sys.argv[1:])
assert handed >= 8 and timed == len([n for n in range(int(handed)) if n % 61 == 0 or n < 256 and n % 8 == 0]), (handed, timed)
assert median <= longest < all_ns / 1e3 and 1e3 * (longest - 0.1) <= sum_ns <= timed * 1e3 * (longest + 0.1)
PY
}

@test "summary: what came of the last comparison" {
    [ "$(nproc)" -gt 1 ] || skip "nothing is handed over on one processor"
    for _ in 1 2 3 4 5 6 7 8 9 10; do # a pause in a span makes it say nothing
        AUTOGRAPH_SUBMIT=auto handing compared "$AG_BUILD/tests/command/command_cases" slow-host 2000
        grep -q 'speed with' compared.summary && break
    done
    cat compared.summary
    percent=$(sed -n 's/.*speed with .*: \([0-9]*\)$/\1/p' compared.summary)
    said compared | grep -q "(with it the program was $(python3 -c "print(f'{$percent / 100:.2f}')") times as fast when last compared)"
}

@test "top: who launches at this time, how long that waits, and what processor time it takes; without a dump" {
    AUTOGRAPH_SUBMIT=thread AUTOGRAPH_TEST_CHUNK=1024 AUTOGRAPH_TEST_PROFIT=0 LD_PRELOAD=$PRELOAD \
        "$AG_BUILD/tests/command/command_submit" patient 100000000 3>&- &
    run python3 - "$AG_COMMAND" $! <<'PY'
import json, subprocess, sys, time
end = time.monotonic() + 60
while True:
    told = subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "2", "-d", "0.1", "-f", "jsonl"], capture_output=True, text=True)
    rows = [json.loads(line) for line in told.stdout.splitlines()] if told.returncode == 0 else []
    last = {r["what"]: r["total"] for r in rows if r["table"] == "live"}
    if last and last["of these by the library's own thread"] and last["launches in those"] and last["processor time of that thread (us)"]:
        assert 0 < last["wait for that thread, median (us)"] <= last["wait for that thread, longest (us)"] < 60e6, last
        text = subprocess.run([sys.argv[1], "top", sys.argv[2], "-n", "1", "-d", "0.1", "-t", "live"], capture_output=True,
                              text=True, env={"COLUMNS": "80"}).stdout
        assert max(map(len, text.splitlines())) <= 80, text
        break
    assert time.monotonic() < end, (told, rows)
PY
    kill -9 $!
    wait $! || true
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "report: who launched, what was handed over, and how long that waited" {
    autograph report handed -f json > handed.json
    autograph report ahead -f json > ahead.json
    for dump in handed ahead; do
        events $dump '__import__("json").dumps({
            "chunks": len(chunks), "ops": sum(e.b for e in chunks), "singles": len(singles),
            "back": len([e for e in chunks if not e.what]), "singles_back": len([e for e in singles if not e.what]),
            "own": len([e for e in chunks if e.what]), "took_ns": int(counters["SUBMIT_NS"]),
            "graphs": len([e for e in events if e.kind == GRAPH]),
            "own_ns": sum(e.b for e in events if e.kind == GRAPH and e.thread in {t.thread for t in events if t.kind == TAKEN and t.what}),
            "ns": sum(e.b for e in events if e.kind == GRAPH),
            "waits": sorted(e.value for e in events if e.kind == TAKEN)})' > $dump.facts
        python3 - $dump <<'PY'
import json, sys
d, f = (json.load(open(sys.argv[1] + end)) for end in (".json", ".facts"))
of = {r["handed_over"]: r["value"] for r in d["handed_over"]}
program, own = d["launchers"]
assert own["launched_by"] == "the library's own thread" and own["graph_launches"] == f["own"], (own, f["own"])
assert program["graph_launches"] == f["graphs"] - f["own"]
assert abs(own["time_us"] - f["own_ns"] / 1e3) < 0.1 and abs(program["time_us"] - (f["ns"] - f["own_ns"]) / 1e3) < 0.1
# the time of the library's thread is not the program's
work = {r["work"]: r for r in d["work"]}
assert work["graph launches"]["count"] == f["graphs"] and work["graph launches"]["host_time_us"] == program["time_us"]
assert of["chunks"] == f["chunks"] and of["launches in them"] == f["ops"], (of, f)
assert of["chunks that the program took back"] == f["back"]
assert of["launches one by one"] == f["singles"] and of["single launches that the program took back"] == f["singles_back"]
assert abs(of["wait, longest (us)"] - f["waits"][-1] / 1e3) < 0.1
assert abs(of["wait, median (us)"] - f["waits"][len(f["waits"]) // 2] / 1e3) < 0.1
assert of["wait, median (us)"] <= of["wait, 99 of 100 at most (us)"] <= of["wait, longest (us)"]
took = f["took_ns"] / 1e6
assert took and abs(of["processor time of that thread (ms)"] - took) <= 0.051, (of, took)
carried = sum(r["count"] for r in d["launches"] if "graphs" in r["launches"])
assert program["launches_in_them"] + own["launches_in_them"] == carried
saved = sum(r["saved_us"] for r in d["sequences"])
assert abs(saved - work["saved on the host"]["host_time_us"]) < 1, saved
eager = work["eager launch (median)"]["each_us"]
assert abs(saved + program["time_us"] - carried * eager) < 0.011 * carried, (saved, program, carried, eager)
PY
    done
    autograph report inline -f json | holds "not d.keys() & {'launchers', 'handed_over'}"
    # as the summary of the same run says it, if anything was saved
    for dump in handed ahead; do
        each=$(sed -n 's/.* processor time, \([0-9.]*\) s for each second that it saved.*/\1/p' $dump.summary)
        autograph report $dump -f json | holds "[r['value'] for r in d['handed_over'] if 'each second' in r['handed_over']] == [${each}]"
    done
    [ "$(COLUMNS=80 autograph report handed --table=launchers | wc -L)" -le 80 ]
    [ "$(COLUMNS=80 autograph report handed --table=handed_over | wc -L)" -le 80 ]
}

@test "report: of several processes" {
    autograph report handed ahead -f json > both.json
    autograph report handed -f json > handed.json
    autograph report ahead -f json > ahead.json
    python3 - <<'PY'
import json
both, a, b = (json.load(open(name + ".json")) for name in ("both", "handed", "ahead"))
for i in 0, 1:
    assert both["launchers"][i]["graph_launches"] == sum(d["launchers"][i]["graph_launches"] for d in (a, b))
of = [{r["handed_over"]: r["value"] for r in d["handed_over"]} for d in (both, a, b)]
for name in "chunks", "launches in them", "launches one by one", "chunks that the program took back":
    assert of[0][name] == of[1][name] + of[2][name], name
assert of[0]["wait, longest (us)"] == max(o["wait, longest (us)"] for o in of[1:])
PY
}

@test "report: the processor time of a process that did not come to its end" {
    python3 -c "b = open('handed', 'rb').read(); open('killed', 'wb').write(b[:b.rindex(b'AGckCNTS')])"
    ms=$(events handed 'format([e.value for e in events if e.kind == TOOK][-1] / 1e6, ".1f")')
    autograph report killed -f json | holds "[r['value'] for r in d['handed_over'] if r['handed_over'] == 'processor time of that thread (ms)'] == [$ms]"
}

@test "timeline: the library's own thread has a row of its own" {
    autograph timeline handed -o t.json
    python3 - "$(launched)" "$(events handed 'len(chunks)')" "$(events handed 'sum(e.what for e in singles)')" <<'PY'
import json, sys
launched, taken, singly = map(int, sys.argv[1:])
e = json.load(open("t.json"))["traceEvents"]
names = {x["tid"]: x["args"]["name"] for x in e if x["name"] == "thread_name" and x["pid"]}
own = [tid for tid, name in names.items() if name.startswith("autograph-submit ")]
assert len(own) == 1, names
graphs = [x for x in e if x["name"] == "cuGraphLaunch"]
assert len([x for x in graphs if x["tid"] == own[0]]) == launched
assert {x["name"] for x in e if x["ph"] == "X" and x["tid"] == own[0]} == {"cuGraphLaunch", "launch"}
single = [x for x in e if x["name"] == "launch"]
assert len(single) == singly and all(x["tid"] == own[0] and "waited us" in x["args"] for x in single)
assert len([x for x in graphs if "waited us" in x["args"]]) == taken
assert all("waited us" in x["args"] for x in graphs if x["tid"] == own[0])
held = [x for x in e if x["name"] == "held back"]
assert len([x for x in held if x["args"]["submitted by"].endswith("by the library's own thread")]) == launched
PY
    # launches that were refused, and the flushes that did their work
    flushes=$(events refused 'len([e for e in chunks if behind(e).kind == FLUSH])')
    autograph timeline refused | holds "len([x for x in d['traceEvents'] if x['name'].startswith('flush: ') and 'waited us' in x['args']]) == $flushes"
}

@test "timeline: what the library's own thread takes of a processor, from each time that it tells it to the next, and in all" {
    took='[e for e in events if e.kind == TOOK]'
    for steps in 1000 10000 100000; do
        AUTOGRAPH_TEST_CHUNK=1024 handing long "$AG_BUILD/tests/command/command_submit" patient $steps
        [ "$(events long "$took[-1].value > 60e6")" = False ] || break
    done
    # it tells it after 10 ms at the latest, and of its own time no more passes meanwhile
    [ "$(events long "max(b - a for a, b in zip([0] + [e.value for e in $took], [e.value for e in $took])) < 20e6")" = True ]
    [ "$(events long "{e.thread for e in $took} == {e.thread for e in events if e.kind == TAKEN and e.what == 1}")" = True ]
    [ "$(events long "$took[-1].value == int(counters['SUBMIT_NS'])")" = True ]
    events long "[[e.time / 1e3, e.value / 1e3] for e in $took]" >took
    autograph timeline long -o t.json
    python3 - <<'PY'
import json
told = json.load(open("took"))
e = json.load(open("t.json"))["traceEvents"]
percent = [(x["ts"], x["args"]["percent"]) for x in e if x["ph"] == "C"]
assert len(percent) == len(told) and percent[-1][1] == 0 and all(0 <= p <= 100 for _, p in percent), percent
for (a, p), (b, _), before, behind in zip(percent, percent[1:], told, told[1:]):
    assert abs((b - a) - (behind[0] - before[0])) < 0.1, (percent, told)
    assert p == 100 or abs(p - 100 * (behind[1] - before[1]) / (b - a)) < 0.6, (percent, told)
name = next(x["args"]["name"] for x in e if x["name"] == "thread_name" and x["args"]["name"].startswith("autograph-submit "))
assert name.endswith(f", {told[-1][1] / 1e3:.1f} ms of processor time"), name
PY
}

@test "html and diff tell of it, and of a run without it nothing" {
    autograph html handed | grep -q "<b>$(launched)</b><span class=\"soft\">graph launches by the library's own thread</span>"
    no grep -q "own thread" <(autograph html inline)
    autograph diff inline handed -f json | holds "[r for r in d['totals'] if r['what'] == 'of these by the library\'s own thread'][0]['after'] == $(launched)"
    autograph diff inline handed -f json | holds "[r for r in d['totals'] if r['what'] == 'launches handed over to it (%)'][0]['before'] == 0"
    no grep -q "own thread" <(autograph diff inline inline)
    [ "$(COLUMNS=80 autograph diff inline handed --table=totals | wc -L)" -le 80 ]
}
