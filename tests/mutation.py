"""Deliberate bugs in a copy of the library, for the scripts `mutants` of tests/fuzz, tests/command, tests/policy and
tests/gpu/fuzz.

A mutant is a change (FUNCTION, OLD, NEW), or a list of them. FUNCTION is the name of a function of C, wherever it is
defined; OLD are tokens of C that occur once in it, whatever the spaces, line breaks and comments between them:

    $name     any identifier          $$name    any tokens with their brackets in pairs, as few as fit
    ^         alone: the beginning of the function's body

The same name stands for the same tokens, in NEW as well. So a mutant outlives new files, new layout and changes elsewhere;
one that does not fit any more is an error, and says why.

Why not a tool: what makes mutants of C (mull, universalmutator, dextool) changes operators at random, thousands of them, and
here each is a certain mistake with a name, which a certain suite must find; coccinelle's patches would say the same as these,
but need a compiler of their own on every machine that runs the tests.
"""
import contextlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What the library is not made of.
OTHERS = {"tests", "tools", "examples", "docs", "bench"}
TOKEN = re.compile(r"""\$\$?[A-Za-z_]\w*|[A-Za-z_]\w*|\.?[0-9](?:[eEpP][+-]|[\w.])*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
                   |->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||\S""", re.X)
NO_CODE = re.compile(r"""(?P<keep>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/\*.*?\*/|//[^\n]*
                     |^[ \t]*\#(?:[^\n\\]|\\.)*""", re.X | re.S | re.M)
PAIRS = {"(": ")", "[": "]", "{": "}"}


class Misfit(Exception):
    """A change does not fit the sources."""


def run(*command, **more):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)


def parts():
    """The folders that the library is built from."""
    return [p for p in sorted(ROOT.iterdir())
            if p.name in ("cmake", ".deps") or (p.name not in OTHERS and (p / "CMakeLists.txt").exists() and
                                                not (p / "CMakeCache.txt").exists())]


def tokens_of(text):
    """[(token, where it begins, where it ends)], without comments and lines of the preprocessor."""
    blank = NO_CODE.sub(lambda m: m[0] if m["keep"] else re.sub(r"[^\n]", " ", m[0]), text)
    return [(m[0], m.start(), m.end()) for m in TOKEN.finditer(blank)]


def closing(tokens, i):
    """Where the bracket at i is closed."""
    depth = 0
    for k in range(i, len(tokens)):
        depth += (tokens[k][0] in PAIRS) - (tokens[k][0] in PAIRS.values())
        if depth == 0:
            return k
    return len(tokens) - 1


def functions_of(tokens):
    """{name: [(first token, token of the body's '{', last token)]} of all that is defined here."""
    found, i, start = {}, 0, 0
    while i < len(tokens):
        token = tokens[i][0]
        if token in ";}":
            start = i + 1
        elif token == "(":
            end = closing(tokens, i)
            if end + 1 < len(tokens) and tokens[end + 1][0] == "{" and i and tokens[i - 1][0].isidentifier():
                last = closing(tokens, end + 1)
                found.setdefault(tokens[i - 1][0], []).append((start, end + 1, last))
                end, start = last, last + 1
            i = end
        elif token == "{":
            i = closing(tokens, i)
        i += 1
    return found


def match(pattern, tokens, i, last, names):
    """Where a match of `pattern` ends that begins at token i, and what its names stand for; or None."""
    if not pattern:
        return i, names
    head, rest = pattern[0], pattern[1:]
    if head.startswith("$$"):
        if head in names:
            return match([*names[head], *rest], tokens, i, last, names)
        end = i
        while True:
            done = match(rest, tokens, end, last, {**names, head: [t[0] for t in tokens[i:end]]})
            if done or end > last or tokens[end][0] in PAIRS.values():
                return done
            end = closing(tokens, end) + 1 if tokens[end][0] in PAIRS else end + 1
    if i > last:
        return None
    token = tokens[i][0]
    if head.startswith("$"):
        if names.setdefault(head, [token]) != [token] or not token.isidentifier():
            return None
    elif head != token:
        return None
    return match(rest, tokens, i + 1, last, names)


class Sources:
    """The C files below some folders."""

    def __init__(self, folders):
        self.files = {}  # path: (text, tokens, functions)
        for folder in folders:
            for path in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")]):
                text = path.read_text()
                tokens = tokens_of(text)
                self.files[path] = text, tokens, functions_of(tokens)
        self.words = {t[0] for _, tokens, _ in self.files.values() for t in tokens}

    def places(self, function, old):
        """[(path, where the text of `old` begins, where it ends, what its names stand for)]; and whether there is such a
        function at all."""
        pattern, found, defined = [t[0] for t in tokens_of(old)], [], False
        for path, (_, tokens, functions) in self.files.items():
            for first, body, last in functions.get(function, ()):
                defined = True
                if old == "^":
                    found.append((path, tokens[body][2], tokens[body][2], {}))
                    continue
                for i in range(first, last + 1):
                    done = match(pattern, tokens, i, last, {})
                    if done:
                        found.append((path, tokens[i][1], tokens[done[0] - 1][2], done[1]))
        return found, defined

    def change(self, function, old, new):
        """(path, begin, end, text instead)"""
        found, defined = self.places(function, old)
        if not defined:
            raise Misfit(f"no function is called {function}")
        if len(found) != 1:
            raise Misfit(f"in {function}() this occurs {len(found)} times, not once: {old}")
        path, begin, end, names = found[0]
        for word in re.findall(r"\b(?:ag_|AG_|cu)\w+", new):
            if word not in self.words and word not in old:
                raise Misfit(f"nothing of the sources is called {word}, which is to stand in {function}()")
        new = re.sub(r"\$\$?[A-Za-z_]\w*", lambda m: " ".join(names[m[0]]), new)
        return path, begin, end, f" {new} "


def changes_of(mutant):
    return mutant if isinstance(mutant, list) else [mutant]


def check(mutants):
    """Whether all of {name: mutant} fit the sources as they are; says which do not."""
    sources, misfits = Sources(parts()), 0
    for name, mutant in mutants.items():
        try:
            for change in changes_of(mutant):
                sources.change(*change)
        except Misfit as why:
            print(f"{name} does not fit: {why}")
            misfits += 1
    print(f"{len(mutants)} mutants, {misfits} do not fit")
    return not misfits


class Copy:
    """The library's sources in a folder of their own, built without tests."""

    project, target = ".", "autograph"

    def __init__(self, folder):
        self.source, self.build = folder / "source", folder / "build"
        # Objects too: one of the last run's last mutant is newer than the source that takes its place.
        shutil.rmtree(folder, ignore_errors=True)
        self.source.mkdir(parents=True)
        shutil.copy2(ROOT / "CMakeLists.txt", self.source)
        for part in parts():
            shutil.copytree(part, self.source / part.name)
        if self.project != ".":
            shutil.copytree(ROOT / self.project, self.source / self.project)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        done = run("cmake", *generator, "-S", self.source / self.project, "-B", self.build, "-DAG_BUILD_TOOLS=OFF",
                   "-DAG_BUILD_TESTS=OFF", "-DAG_BUILD_EXAMPLES=OFF", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        if done.returncode:
            sys.exit("mutants: the copy cannot be configured\n" + done.stdout[-3000:])
        self.sources = Sources([self.source / part.name for part in parts()])
        try:
            self.make("the copy")
        except Misfit as why:
            sys.exit(f"mutants: {why}")

    def make(self, what):
        done = run("cmake", "--build", self.build, "-j2", "--target", self.target)
        if done.returncode:
            raise Misfit(f"{what} cannot be built\n{done.stdout[-3000:]}")
        return self.made()

    def made(self):
        (library,) = self.build.rglob("libautograph.so")
        return library

    @contextlib.contextmanager
    def mutant(self, name, mutant):
        """What was made, with these changes; Misfit where they do not fit."""
        changes = [self.sources.change(*change) for change in changes_of(mutant)]
        texts = {path: self.sources.files[path][0] for path, *_ in changes}
        try:
            for path, begin, end, new in sorted(changes, key=lambda c: -c[1]):
                text = path.read_text()
                path.write_text(text[:begin] + new + text[end:])
            yield self.make(name)
        finally:
            for path, text in texts.items():
                path.write_text(text)
