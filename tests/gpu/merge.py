#!/usr/bin/env python3
"""Makes one table of the folders that runs of the suite left (--out): parts of the programs, and the
real programs. They must be of one commit. Needs no GPU."""

import argparse
import sys
from pathlib import Path

import page
import picture
import real_table
import results
import rows
import tables


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run --merge", description=__doc__)
    parser.add_argument("folders", metavar="DIR", type=Path, nargs="+", help="later ones come first")
    parser.add_argument("--out", type=Path, help="folder for table.txt, gain.json and results.jsonl")
    parser.add_argument("--markdown", metavar="FILE", type=Path,
                        help="page of results whose sections are rewritten (docs/gpu-results.md)")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="picture to write (docs/gain.svg)")
    args = parser.parse_args()
    order = [row.name for row in rows.all_rows()]
    programs, real = [], []
    for folder in args.folders:
        programs = results.merge(programs, results.load(folder), order)
        real = results.merge(real, results.load(folder, real_table.FILE))
    try:
        results.commit_of(programs + real)
    except results.Mixed as mixed:
        print(f"merge: {mixed}", file=sys.stderr)
        return 2
    if not programs and not real:
        print("merge: no results there", file=sys.stderr)
        return 2
    if programs:
        print(results.text_of(programs))
    if real:
        print(real_table.table(real))
    if args.out:
        results.save(args.out, programs)
    if args.picture:
        picture.write(args.picture, tables.gains(programs), results.made_by(programs))
    if args.markdown:
        if programs:
            results.put_on_page(args.markdown, programs)
        if real:
            page.put_section(args.markdown, real_table.HEADING, real_table.text(real),
                             results.made_by(real))
    return 0


if __name__ == "__main__":
    sys.exit(main())
