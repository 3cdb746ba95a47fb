"""Runs the variants of one program round by round: one process at a time, several fresh ones each.

A process warms up, prints READY, waits for a line on stdin, does one repetition, prints
"TIME <microseconds>", and so on; at its end it prints a RESULT line. After the time may stand "HOST
<microseconds>", what is left of it without waiting for the GPU. Two processes on a GPU slow each
other even where only one of them works, so no two have a context at once; and a process keeps some
of the speed that it happens to start with, so each variant is started anew in every round. Its main
thread does each repetition on a processor that goes at full speed (processors.py). A gated program
says LOADED before it touches CUDA and waits for a line: all processes of a row load their modules at
the same time, and nothing is measured before the last one has.
"""

import json
import os
import queue
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from processors import lent


class Failure(Exception):
    """A variant crashed, hung or said something that cannot be understood."""


def parse_result(line):
    """The fields of a RESULT line: JSON, or words of the form key=value."""
    text = line[len("RESULT "):].strip()
    if text.startswith("{"):
        return json.loads(text)
    return dict(word.split("=", 1) for word in text.split())


class Process:
    """One process of a variant and what it has said so far."""

    def __init__(self, name, command, env, timeout):
        self.name = name
        self.command = command
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.times = []
        self.host_times = []
        self.result = None
        self.output = []
        self.error_text = ""
        self.errors = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            text=True, errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.output.append(line)
            self.lines.put(line)
        self.lines.put(None)

    def _expect(self, word):
        """The next line that starts with `word`; None where the output has ended, however often it is asked."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, self.deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: no '{word}' in time (hang)") from None
            if line is None:
                self.lines.put(None)
                return None
            if line.startswith("RESULT "):
                self.result = parse_result(line)
            if line.startswith(word):
                return line

    def await_loaded(self):
        """What goes wrong here shows again at the gate or behind it."""
        try:
            self._expect("LOADED")
        except Failure:
            pass

    def open_gate(self, repetitions=None):
        """`repetitions`: in place of those that the command line asks for."""
        self.deadline = time.monotonic() + self.timeout
        try:
            self.process.stdin.write(f"go {repetitions}\n" if repetitions else "go\n")
            self.process.stdin.flush()
        except OSError:
            raise Failure(f"{self.name}: ended before it was ready, {self.end_status()}") from None

    def await_line(self, word):
        """The next line that begins with this word."""
        line = self._expect(word)
        if line is None:
            raise Failure(f"{self.name}: no '{word}', {self.end_status()}")
        return line

    def await_ready(self):
        if self._expect("READY") is None:
            raise Failure(f"{self.name}: ended before it was ready, {self.end_status()}")

    def repeat(self):
        self.begin_repetition()
        self.end_repetition()

    def begin_repetition(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except OSError:
            raise Failure(f"{self.name}: ended too early, {self.end_status()}") from None

    def end_repetition(self):
        line = self._expect("TIME ")
        if line is None:
            raise Failure(f"{self.name}: ended in a repetition, {self.end_status()}")
        words = line.split()
        self.times.append(float(words[1]))
        if len(words) > 3 and words[2] == "HOST":
            self.host_times.append(float(words[3]))

    def finish(self):
        """Waits for the end, which must be orderly and after a RESULT line."""
        while self._expect("RESULT ") is not None:
            pass
        status = self.end_status()
        if self.process.returncode != 0:
            raise Failure(f"{self.name}: {status}")
        if self.result is None:
            raise Failure(f"{self.name}: no RESULT line")

    def end_status(self):
        try:
            code = self.process.wait(timeout=max(0.5, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return "does not end (hang)"
        status = f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        self.errors.seek(0)
        said = [line.strip() for line in self.errors if line.strip()]
        return status + (f" ({said[-1][:100]})" if said else "")

    def kill(self):
        """Ends the process and everything that it started, and keeps what it said."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join(timeout=5.0)
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        self.errors.seek(0)
        self.error_text = self.errors.read()
        self.errors.close()

    def log(self):
        return (f"--- {self.name}: {' '.join(self.command)}\n{''.join(self.output)}"
                f"--- stderr\n{self.error_text}\n")


class Variant:
    """All rounds of one variant: the times of each process, and the last line of each result."""

    def __init__(self, name):
        self.name = name
        self.rounds = []
        self.host_times = []
        self.results = []
        self.logs = []
        self.error_text = ""    # of the last process
        self.failure = None

    def times(self):
        return [time_us for times in self.rounds for time_us in times]

    def median(self):
        return statistics.median(self.times())

    def fastest(self):
        """What the fastest tenth of the repetitions take at most; None where there are fewer than ten."""
        times = self.times()
        return statistics.quantiles(times, n=10, method="inclusive")[0] if len(times) >= 10 else None

    def host(self):
        """The median of the host's times; None where the program does not tell them."""
        return statistics.median(self.host_times) if self.host_times else None

    def spread(self):
        """The fastest and the slowest process, each by its median."""
        medians = [statistics.median(times) for times in self.rounds if times]
        return min(medians), max(medians)

    def checksums(self):
        return {result.get("checksum") for result in self.results}

    def log(self):
        return "".join(self.logs)


def run_once(variant, command, env, repetitions, timeout, loaded=None, processors=None, once_ready=None):
    """One process from start to end, added to its variant. Returns the failure or None. `loaded` is
    the process where it waits at its gate already; `once_ready` is called ahead of the first repetition."""
    process = loaded
    failure = None
    try:
        if process:
            process.open_gate()
        else:
            process = Process(variant.name, command, env, timeout)
        for number in range(repetitions):
            process.await_ready()
            if once_ready and not number:
                once_ready()
            with lent(processors, process.process.pid):
                process.repeat()
        process.finish()
    except (Failure, OSError, ValueError) as error:
        failure = str(error)
    finally:
        if process:
            process.kill()
            variant.rounds.append(process.times)
            variant.host_times += process.host_times
            if process.result is not None:
                variant.results.append(process.result)
            variant.logs.append(process.log())
            variant.error_text = process.error_text
    return failure


class Loaded:
    """The processes of gated variants, all past the loading of their modules: `rounds` of each."""

    def __init__(self, specs, rounds, timeout):
        self.waiting = {name: [] for name, _, _ in specs}
        try:
            for _ in range(rounds):
                for name, command, env in specs:
                    self.waiting[name].append(Process(name, [*command, "--gated"], env, timeout))
            for process in self.all():
                process.await_loaded()
        except OSError:
            self.end()
            raise

    def all(self):
        return [process for processes in self.waiting.values() for process in processes]

    def take(self, name):
        return self.waiting[name].pop(0)

    def end(self):
        """Ends those that nobody took."""
        for process in self.all():
            process.kill()


def run_in_rounds(specs, rounds, repetitions, timeout, seconds=float("inf"), gated=False,
                  optional=(), processors=None):
    """specs: (name, command, env) of each variant. Every other round goes backwards, so that drift of
    the machine meets all variants alike. After the second round no round is begun that would end
    later than `seconds` from the start. A variant named in `optional` that fails is left out of
    further rounds. Returns the variants and the failure of another one, None where all went well."""
    variants = [Variant(name) for name, _, _ in specs]
    loaded = Loaded(specs, rounds, timeout) if gated else None
    start = time.monotonic()
    try:
        for number in range(rounds):
            begun = time.monotonic()
            order = list(zip(variants, specs))
            for variant, (_, command, env) in order if number % 2 == 0 else order[::-1]:
                if variant.failure:
                    continue
                variant.failure = run_once(variant, command, env, repetitions, timeout,
                                           loaded.take(variant.name) if loaded else None, processors)
                if variant.failure and variant.name not in optional:
                    return variants, variant.failure
            now = time.monotonic()
            if number >= 1 and now - start + (now - begun) > seconds:
                break
    finally:
        if loaded:
            loaded.end()
    return variants, None
