#!/usr/bin/env bats
# What people look at: timelines, graphs, pages and pictures of two examples on the simulated driver, and a terminal.

load common.bash

setup_file() {
    load common.bash
    trace_examples
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

@test "timeline: events as the trace viewers want them" {
    autograph timeline heat -o t.json
    python3 - <<'PY'
import json
t = json.load(open("t.json"))
e = t["traceEvents"]
ops = [x for x in e if x["ph"] == "X" and x["name"] in ("cuLaunchKernel", "cuMemsetD32Async")]
graphs = [x for x in e if x["ph"] == "X" and x["name"] == "cuGraphLaunch"]
starts = {x["id"]: x for x in e if x["ph"] == "s"}
ends = {x["id"]: x for x in e if x["ph"] == "f"}
held = [x for x in e if x["name"] == "held back"]
assert len(ops) > 40000 and len(graphs) > 1000
assert all("ts" in x and x["dur"] >= 0 and x["ts"] >= 0 and "pid" in x and "tid" in x for x in e if x["ph"] == "X")
seen = [x["args"]["correlation"] for x in e if x["ph"] == "X" and "correlation" in x["args"]]
assert len(seen) == len(set(seen)), "correlations are unique"
assert starts.keys() == ends.keys() and starts
flushes = [x for x in e if x["name"].startswith("flush: ")]
flushed = sum(x["args"]["launches"] - x["args"]["by shorter graphs"] for x in flushes)
assert sum(x["args"]["launches"] for x in graphs) + flushed == len(starts), "an arrow for each launch held back"
by_id = {x["args"]["correlation"]: x for x in ops}
slices = {(x["ts"], x["tid"]) for x in graphs + flushes}
for i, s in starts.items():
    assert by_id[i]["ts"] == s["ts"] and by_id[i]["tid"] == s["tid"], "an arrow begins at its launch"
    assert ends[i]["ts"] >= s["ts"]
    assert (ends[i]["ts"], ends[i]["tid"]) in slices, "and ends where it was submitted"
assert sum(x["args"]["launches"] for x in held) == len(starts)
assert all(x["cat"] == "cuda_driver" and "on stream" in x["args"] for x in ops + graphs)
# Holistic Trace Analysis takes an event with a stream for the GPU's, and needs ts, cat, name of each slice
assert not any("stream" in x.get("args", {}) for x in e)
assert all(isinstance(x["ts"], (int, float)) and x["cat"] and x["name"] for x in e if x["ph"] == "X")
assert t["schemaVersion"] == 1
PY
}

@test "timeline: flushes bear their reasons" {
    # the last launches of an unfinished period are flushed at the end of the program
    autograph report none -f json > none.json
    autograph timeline none -o none.t.json
    python3 - <<'PY'
import json
why = {r["reason"]: r["times"] for r in json.load(open("none.json"))["flushes"]}
e = json.load(open("none.t.json"))["traceEvents"]
got = {}
for x in e:
    if x["name"].startswith("flush: "):
        got[x["args"]["reason"]] = got.get(x["args"]["reason"], 0) + 1
assert got == why, (got, why)
PY
}

@test "timeline: slices of a line are within each other or apart: viewers drop what overlaps" {
    LD_PRELOAD="$PRELOAD" AUTOGRAPH_TRACE="$PWD/threads" "$AG_BUILD/tests/tools/tools_threads"
    for name in heat reasons changing none threads; do
        autograph timeline $name -o t.json
        python3 - $name <<'PY'
import json, sys
lines = {}
for x in json.load(open("t.json"))["traceEvents"]:
    if x["ph"] == "X":
        begin = round(x["ts"] * 1000)
        lines.setdefault((x["pid"], x["tid"]), []).append((begin, -round(x["dur"] * 1000), x["name"]))
for line, slices in lines.items():
    open_until = []
    for begin, minus, name in sorted(slices):
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        end = begin - minus
        assert not open_until or end <= open_until[-1], (sys.argv[1], line, name, begin, end, open_until)
        open_until.append(end)
assert len(lines) > 1
PY
    done
}

@test "timeline: a part of it" {
    autograph timeline heat -o whole.json
    read -r from to < <(autograph report heat -f json | python3 -c 'import json,sys
s = [r["value"] for r in json.load(sys.stdin)["process"] if r["name"] == "seconds"][0]; print(round(s / 3, 3), round(s / 2, 3))')
    autograph timeline heat --from="$from" --to="$to" -o part.json
    python3 - "$from" "$to" <<'PY'
import json, sys
begin, end = (round(float(x) * 1e6, 3) for x in sys.argv[1:])
whole, part = (json.load(open(n))["traceEvents"] for n in ("whole.json", "part.json"))
key = lambda x: (x["name"], x["ts"], x["tid"], x["pid"])
ops = lambda t: [x for x in t if x["ph"] == "X" and x["name"] == "cuLaunchKernel"]
wanted = {key(x) for x in ops(whole) if begin <= x["ts"] <= end}
assert wanted and wanted == {key(x) for x in ops(part)}, (len(wanted), len(ops(part)))
assert len(part) < len(whole) / 2
starts, ends = ({x["id"] for x in part if x["ph"] == p} for p in "sf")
assert starts == ends and starts, "no arrow without its other end"
PY
    run autograph timeline heat --from=yesterday
    [ "$status" -eq 2 ]
}

@test "timeline: compressed" {
    autograph timeline loop -o t1.json
    autograph timeline loop -o t1.json.gz
    zcat t1.json.gz | cmp - t1.json
}

@test "graphs: Graphviz takes them, updated nodes are marked" {
    autograph graphs changing > g.dot
    grep -q 'updated [0-9]* times' g.dot
    autograph graphs whole > out.txt
    grep -q 'heat_inner' out.txt
    no grep -q 'updated [0-9]* times' out.txt
    command -v dot >/dev/null || skip "dot is not installed"
    dot -Tsvg g.dot > g.svg
    no grep -q '<ellipse' g.svg # boxes
    autograph graphs changing -o own.svg
    python3 -c 'import xml.dom.minidom as x; assert "short_kernel" in x.parse("own.svg").toxml()'
    autograph graphs changing -g 1 | grep -c subgraph | grep -qx 1
    run autograph graphs changing -g 999999
    [ "$status" -eq 1 ]
}

@test "graphs: a table of them" {
    autograph graphs heat --format=json > graphs.json
    python3 - <<'PY'
import json
graphs = json.load(open("graphs.json"))["graphs"]
assert 0 < len(graphs) <= 10
assert [g["launched"] for g in graphs] == sorted((g["launched"] for g in graphs), reverse=True)
assert all(g["from_place"] + g["launches_in_it"] <= g["of_a_sequence_of"] for g in graphs)
assert any(g["its_first_launch"].startswith("heat_inner <<<") for g in graphs)
PY
    all=$(autograph graphs heat -n 0 -f json | python3 -c 'import json,sys; print(sum(g["launched"] for g in json.load(sys.stdin)["graphs"]))')
    autograph report heat -f json | holds "d['work'][0]['count'] == $all"
}

@test "html: one page that asks for nothing else" {
    autograph html heat -o page.html
    no grep -Eiq '(src|href)=|@import|url\(|<script' page.html
    grep -q 'prefers-color-scheme:dark' page.html
    grep -q 'name="viewport" content="width=device-width' page.html
    python3 - <<'PY'
from html.parser import HTMLParser
void = {"meta", "br", "link", "img"}
class P(HTMLParser):
    stack, tags = [], {}
    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in void:
            self.stack.append(tag)
    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, (tag, self.getpos())
p = P()
p.feed(open("page.html").read())
assert not p.stack and p.tags["table"] >= 3 and p.tags["svg"] >= 2 and p.tags["rect"] > 60, p.tags
PY
    for part in coverage sequences graphs reasons sync_points; do
        grep -q "<h2 id=\"$part\">" page.html
    done
    grep -q '</i>heat_inner</span>' page.html # the key of the colours
    grep -q '<b>41,200</b>\|<b>[0-9]*,[0-9]*</b>' page.html
    autograph html reasons 2>/dev/null | grep -q 'mismatch, most often at copy'
    "$AG_BUILD/tests/tools/tools_large" many 4 # long lists of kernels are folded, between two of them
    autograph html many | grep -q '<summary>vectorized_elementwise_kernel&lt;Functor[0-9]*&gt; ...</summary>'
}

@test "html: a browser draws it, narrow and dark, without a line on its console" {
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        skip "no Chromium is installed"
    autograph html heat -o page.html
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$BATS_TEST_TMPDIR/profile" \
        --force-dark-mode --window-size=390,844 --screenshot="$PWD/page.png" --enable-logging=stderr \
        "file://$PWD/page.html" 2> browser.log
    no grep -q 'CONSOLE' browser.log
    [ "$(stat -c %s page.png)" -gt 10000 ]
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$BATS_TEST_TMPDIR/profile" \
        --dump-dom "file://$PWD/page.html" 2>/dev/null | grep -q 'heat_inner'
    # nothing but tables is wider than a phone, and those scroll by themselves: measured by a script of the test
    cat > measure.html <<'HTML'
<iframe id=f src=page.html style="width:390px;height:800px"></iframe><script>
f.onload = () => { const d = f.contentDocument.documentElement;
  document.title = "width " + d.scrollWidth + " of " + d.clientWidth + ", background " +
    getComputedStyle(f.contentDocument.body).backgroundColor; }
</script>
HTML
    for scheme in 1 0; do # light, dark
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$BATS_TEST_TMPDIR/profile" \
            --allow-file-access-from-files --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=3000 \
            --dump-dom "file://$PWD/measure.html" 2>/dev/null | grep -o '<title>.*</title>'
    done > seen
    cat seen
    [ "$(grep -c 'width \([0-9]*\) of \1,' seen)" -eq 2 ]
    [ "$(sed 's/.*background//' seen | sort -u | wc -l)" -eq 2 ]
}

@test "texts fit 80 columns, or the terminal's; nothing of them is lost" {
    autograph replay observed -f json > /dev/null
    for columns in 80 120; do
        for verb in "report heat" "report reasons" "report loop heat" "graphs heat -f text" "diff loop heat" "replay observed" env doctor; do
            COLUMNS=$columns autograph $verb > wide.txt || [ "$verb" = doctor ]
            [ "$(wc -L < wide.txt)" -le $columns ] || { echo "$verb: $(wc -L < wide.txt)"; cat wide.txt; false; }
        done
    done
    env -u COLUMNS "$AG_COMMAND" report heat | cmp - <(COLUMNS=80 autograph report heat)
    # what stands in the last column is there, broken at blanks
    [ -n "${AG_RUNTIME:-}" ] || # which stands between the program and the library
        COLUMNS=80 autograph report reasons | tr -s ' \n' ' ' | grep -q 'a copy that overlaps, or is elsewhere in tools_reasons'
    COLUMNS=80 autograph env | tr -s ' \n' ' ' | grep -qF 'file for messages and the summary instead of stderr; %p is the pid, %r the rank, %h the host, %e the program'
}

@test "a terminal: its width and colours, and none with NO_COLOR" {
    cat > terminal.py <<'PY'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
try:
    while more := os.read(fd, 65536):
        out += more
except OSError:
    pass
os.waitpid(pid, 0)
sys.stdout.buffer.write(out.replace(b"\r", b""))
PY
    TERM=xterm python3 terminal.py "$AG_COMMAND" report heat > painted
    grep -q $'^\e\[1m \*\* Process (process):' painted
    sed 's/\x1b\[[0-9;]*m//g' painted | cmp - <(COLUMNS=100 autograph report heat)
    for plain in NO_COLOR=1 TERM=dumb; do
        env TERM=xterm $plain python3 terminal.py "$AG_COMMAND" report heat | cmp - <(COLUMNS=100 autograph report heat)
    done
    TERM=xterm AUTOGRAPH=0 python3 terminal.py "$AG_COMMAND" doctor | grep -q $'\e\[1;31mBAD\e\[m'
    autograph doctor | no grep -q $'\e'
}

@test "pictures: kernels have colours of their own, each box that was updated a mark" {
    autograph html heat -o page.html
    python3 - <<'PY'
import re
keys = dict(re.findall(r'<i style="background:(hsl[^"]*)"></i>([^<]*)<', open("page.html").read())[::-1])
names = set(re.findall(r'<i style="background:hsl[^"]*"></i>([^<]*)<', open("page.html").read()))
assert len(keys) == len(names) >= 4, (keys, names)
PY
    autograph html changing -o page.html
    [ "$(grep -c '<rect class="upd"' page.html)" -ge 10 ]
    [ "$(grep -c '<rect class="upd"' page.html)" -eq "$(grep -c 'rect class="box".*, updated [0-9]* times</title>' page.html)" ]
    [ "$(autograph graphs heat | grep -o 'fillcolor="[^"]*"' | sort -u | wc -l)" -ge 3 ]
    autograph graphs changing > g.dot
    [ "$(grep -c 'updated [0-9]* times' g.dot)" -eq "$(grep -c 'penwidth=3, class="updated"' g.dot)" ]
}
