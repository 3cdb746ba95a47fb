"""Prints the lines of tools/reach.def as docs/reach.md has it: reach.py reach.md reach.def"""
import re
import sys

rows = re.findall(r"^\| (?:C\+\+ )?([^|]*) \| (\w+) \| ([0-9.]+)%~? \|", open(sys.argv[1]).read(), re.M)
for file, name in re.findall(r'^AG_REACH\("([^"]*)", "([^"]*)"', open(sys.argv[2]).read(), re.M):
    mine = [(same, min(float(share), 100.0)) for what, same, share in rows if re.match(re.escape(name) + r"\b", what)]
    assert mine and all(same == "yes" for same, _ in mine), (name, mine)
    shares = [share for _, share in mine]
    print(f'AG_REACH("{file}", "{name}", {len(mine)}, {min(shares):.1f}, {max(shares):.1f})')
