#!/usr/bin/env python3
"""Who may know whom: the rooms of the library's sources, from the bottom up, and the rooms below that each may use.

  includes.py [FOLDER]    the top of the checkout (default: this one's)

A .c file and its header are one file. An arrow runs from a file to each whose header it includes and to each that
defines a function or variable which it names, so that a declaration of one's own hides nothing. Fails on an arrow to
a room that is not listed, on more than two files in a circle, on what a file defines for others but does not show in
its own header, on what it shows there and nobody else names, and on a member of policy's types that is named outside
policy/ and its tests.
"""

import collections
import os
import re
import sys

ROOMS = {
    "driver": [],
    "policy": [],
    "capture/settings": [],
    "capture/system": ["capture/settings"],
    "capture/tracking": ["driver", "policy", "capture/settings", "capture/system"],
    "capture/trace": ["driver", "policy", "capture/settings", "capture/system", "capture/tracking"],
    "capture/graphs": ["driver", "policy", "capture/settings", "capture/system", "capture/tracking", "capture/trace"],
    "capture/report": ["driver", "policy", "capture/settings", "capture/system", "capture/tracking", "capture/trace",
                       "capture/graphs"],
    "capture/core": ["driver", "policy", "capture/settings", "capture/system", "capture/tracking", "capture/trace",
                     "capture/graphs", "capture/report"],
    "preload": ["driver", "capture/settings", "capture/system", "capture/tracking", "capture/core"],
}
# The door between preload/ and capture/: whoever makes something that it shows includes it, and it belongs to nobody.
DOOR = "capture/capture.h"
# A room whose files share one inner header, the state of one machine: only its arrows to others are looked at.
ONE_PIECE = "policy"

# The types of policy/ whose members the compiler must see, and the header that nobody else includes.
PRIVATE = "ag_chunk|ag_policy|ag_engine"
PRIVATE_HEADER = r'#include "policy/internal\.h"'
OTHERS = ("capture", "preload", "tools", "tests")


def without_comments(path):
    with open(path) as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def sources(top):
    """Path without its ending -> text of the .h and .c, without comments."""
    found = {}
    for room in ROOMS:
        for name in sorted(os.listdir(os.path.join(top, room))):
            if name.endswith((".c", ".h")):
                path, ending = os.path.splitext(room + "/" + name)
                found.setdefault(path, {})[ending] = without_comments(os.path.join(top, room, name))
    return found


def defined(text):
    """Names that a .c file defines for others."""
    pattern = r"^(?!static|extern|typedef|return|else|#)[A-Za-z_][^;{}()=#]*?\b(ag_\w+)\s*(?:\([^;{}]*\)\s*\{|=|;|\[|__attr)"
    return set(re.findall(pattern, text, flags=re.M))


def arrows(files):
    """(from, to) -> why, and name -> the file that defines it."""
    makers = {}
    for path, texts in files.items():
        for name in defined(texts.get(".c", "")):
            makers[name] = path
    found = {}
    for path, texts in files.items():
        for ending, text in texts.items():
            for header in re.findall(r'^#include "([^"]*)\.h"', text, flags=re.M):
                if header != path and header in files:
                    found[path, header] = "includes " + header + ".h"
            body = text if ending == ".c" else "".join(re.findall(r"static inline.*?^}", text, flags=re.S | re.M))
            for name in set(re.findall(r"\bag_\w+", body)) & set(makers):
                if makers[name] != path:
                    found.setdefault((path, makers[name]), "uses " + name)
    return found, makers


def not_shown(files, makers, door):
    words = {path: set(re.findall(r"\bag_\w+", " ".join(texts.values()))) for path, texts in files.items()}
    for name, path in sorted(makers.items()):
        shown = files[path].get(".h", "") + door
        others = any(name in names for other, names in words.items() if other != path)
        if others and not path.startswith(ONE_PIECE) and not re.search(r"\b%s\b" % name, shown):
            yield "%s.c: %s is not in its header" % (path, name)


def shown_to_nobody(top, files, makers):
    """What a header shows of its file and no other file names, those of the tests and assembly included."""
    named = {path: set(re.findall(r"\bag_\w+", " ".join(texts.values()))) for path, texts in files.items()}
    for room in tuple(ROOMS) + ("tests", "tools", "driver/generated"):
        for folder, _, names in os.walk(os.path.join(top, room)):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), top)
                if name.endswith((".c", ".h", ".S", ".inc", ".cpp", ".cu")) and os.path.splitext(path)[0] not in files:
                    named[path] = set(re.findall(r"\bag_\w+", without_comments(os.path.join(top, path))))
    for name, path in sorted(makers.items()):
        header = files[path].get(".h", "")
        inline = "".join(re.findall(r"static inline.*?^}|^#define.*?[^\\\\]$", header, flags=re.S | re.M))
        if (re.search(r"\b%s\b" % name, header) and not re.search(r"\b%s\b" % name, inline)
                and not any(name in names for other, names in named.items() if other != path)):
            yield "%s.h: nobody else names %s" % (path, name)


def private_members(top):
    """What others use of policy's types without a getter. Names are looked up as far as a function reaches, members
    everywhere."""
    texts = {}
    for room in ("policy",) + OTHERS:
        for folder, _, names in os.walk(os.path.join(top, room)):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), top)
                if name.endswith((".c", ".h")) and not path.startswith("tests/policy/"):
                    texts[path] = without_comments(os.path.join(top, path))
    declaration = r"struct (?:%s)\b[ *]*(\w+)" % PRIVATE
    structs = [s for text in texts.values() for s in re.findall(r"^struct \w+ \{.*?^\}", text, flags=re.S | re.M)]
    members = r"(?:->|\.)(?:%s)" % "|".join(sorted(set(re.findall(r"^ +" + declaration, "".join(structs), flags=re.M))))
    for path, text in sorted(texts.items()):
        if path.startswith("policy/"):
            continue
        for found in re.findall(PRIVATE_HEADER, text):
            yield "%s: %s belongs to policy/" % (path, found)
        for function in re.split(r"^\}", re.sub(r"^#include .*", "", text, flags=re.M), flags=re.M):
            names = "|".join([members] + [r"\b%s\b" % name for name in sorted(set(re.findall(declaration, function)))])
            for found in re.findall(r"(?:%s)(?:\([^()]*\))?(?:->|\.)\w+" % names, function):
                yield "%s: %s is private to policy/" % (path, found)


def circles(files, found):
    """Tarjan's algorithm: the sets of files in which each reaches each."""
    ahead = collections.defaultdict(list)
    for (source, target) in found:
        ahead[source].append(target)
    index, low, stack, result = {}, {}, [], []

    def visit(path):
        index[path] = low[path] = len(index)
        stack.append(path)
        for target in ahead[path]:
            if target not in index:
                visit(target)
                low[path] = min(low[path], low[target])
            elif target in stack:
                low[path] = min(low[path], index[target])
        if low[path] == index[path]:
            circle = stack[stack.index(path):]
            del stack[stack.index(path):]
            result.append(sorted(circle))

    for path in files:
        if path not in index:
            visit(path)
    return result


def main():
    top = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    files = sources(top)
    with open(os.path.join(top, DOOR)) as file:
        door = file.read()
    found, makers = arrows(files)
    errors = list(not_shown(files, makers, door)) + list(shown_to_nobody(top, files, makers))
    room = os.path.dirname
    for (source, target), why in sorted(found.items()):
        # What preload/ calls through the door is the door's.
        through = room(source) == "preload" and why.startswith("uses") and re.search(r"\b%s\b" % why[5:], door)
        if room(source) != room(target) and room(target) not in ROOMS[room(source)] and not through:
            errors.append("%s %s, and %s may not know %s" % (source, why, room(source), room(target)))
    errors += private_members(top)
    inner = {pair: why for pair, why in found.items() if not pair[0].startswith(ONE_PIECE)}
    errors += ["a circle of %d: %s" % (len(c), " ".join(c)) for c in circles(files, inner) if len(c) > 2]
    print("\n".join(errors) if errors else "%d files, %d arrows: none runs up" % (len(files), len(inner)))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
