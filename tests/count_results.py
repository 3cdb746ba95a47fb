#!/usr/bin/env python3
"""Counts the cases inside ctest's results: each of a bats file (TAP) and of a cmocka program, else the
test as one. Prints a line for each test and "SUM passed failed skipped" last.

    python3 tests/count_results.py results.xml
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def cases(output):
    """(passed, failed, skipped, names of those skipped) of the cases that the output tells of."""
    tap = re.findall(r"^(ok|not ok) \d+ (.*)$", output, re.M)
    if tap and re.search(r"^1\.\.\d+$", output, re.M):
        skipped = [name for word, name in tap if word == "ok" and re.search(r"# skip", name, re.I)]
        failed = sum(word == "not ok" for word, _ in tap)
        return len(tap) - failed - len(skipped), failed, len(skipped), skipped
    if re.search(r"^\[==========\] .*test\(s\) run\.", output, re.M):
        # Names, because failures are listed once more behind the last case.
        ok, bad, skipped = (set(re.findall(r"^\[ *%s *\] (\w+)$" % word, output, re.M))
                            for word in ("OK", "FAILED", "SKIPPED"))
        return len(ok), len(bad), len(skipped), sorted(skipped)
    return 0, 0, 0, []


def shown(output, most=240):
    """What failed, and what stands around it: of a TAP case all that it wrote, which ends where the next begins."""
    lines = output.splitlines()
    bad = [i for i, line in enumerate(lines)
           if re.match(r"not ok|ERROR|\[ +(ERROR|FAILED)|=+$|.*(error:|WARNING: |ERROR: )", line)]
    wanted = {j for i in bad for j in range(i - 2, i + 12)}
    for i in bad:
        if lines[i].startswith("not ok"):
            following = (j for j in range(i + 1, len(lines)) if not lines[j].startswith("#"))
            wanted |= set(range(i, next(following, len(lines))))
    wanted = wanted or range(len(lines) - most // 4, len(lines))
    return "\n".join("    " + lines[i] for i in sorted(wanted)[:most] if 0 <= i < len(lines))


def count(case):
    status = case.get("status")
    passed, failed, skipped, names = cases(case.findtext("system-out") or "")
    if status == "run":
        if passed + failed + skipped == 0:
            passed = 1
    elif status == "fail":
        failed = max(failed, 1)
    else:  # notrun, disabled: the whole test, whatever it says
        passed, failed, skipped = 0, 0, 1
    return passed, failed, skipped, names


def main():
    sums = [0, 0, 0]
    for case in ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        passed, failed, skipped, names = count(case)
        word = "FAILED " if failed else "ok     " if passed else "skipped"
        more = f", {failed} failed" if failed else ""
        more += f", {skipped} skipped" if skipped else ""
        print(f"{word} {case.get('name')} ({passed} passed{more}; {float(case.get('time', 0)):.1f} s)")
        for name in names:
            print(f"        skipped: {name}")
        if failed:
            print(shown(case.findtext("system-out") or ""))
        for i, n in enumerate((passed, failed, skipped)):
            sums[i] += n
    print("SUM", *sums)


if __name__ == "__main__":
    main()
