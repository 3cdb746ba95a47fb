"""Runs variants of one program turn by turn.

Each variant is one process. It warms up, prints READY, waits for a line on stdin, does one
repetition, prints "TIME <microseconds>", and so on; at its end it prints a RESULT line. All variants
are started together and then take turns, so that drift of the machine meets all of them alike.
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


class Failure(Exception):
    """A variant crashed, hung or said something that cannot be understood."""


def parse_result(line):
    """The fields of a RESULT line: JSON, or words of the form key=value."""
    text = line[len("RESULT "):].strip()
    if text.startswith("{"):
        return json.loads(text)
    return dict(word.split("=", 1) for word in text.split())


class Variant:
    """One process and what it has said so far."""

    def __init__(self, name, command, env, timeout):
        self.name = name
        self.command = command
        self.deadline = time.monotonic() + timeout
        self.times = []
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
        """The next line that starts with `word`; None where the output has ended."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, self.deadline - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: no '{word}' in time (hang)") from None
            if line is None:
                return None
            if line.startswith("RESULT "):
                self.result = parse_result(line)
            if line.startswith(word):
                return line

    def await_ready(self):
        if self._expect("READY") is None:
            raise Failure(f"{self.name}: ended before it was ready, {self.end_status()}")

    def take_turn(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except OSError:
            raise Failure(f"{self.name}: ended too early, {self.end_status()}") from None
        line = self._expect("TIME ")
        if line is None:
            raise Failure(f"{self.name}: ended in a repetition, {self.end_status()}")
        self.times.append(float(line.split()[1]))

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

    def median(self):
        return statistics.median(self.times)

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


def run_in_turns(specs, repetitions, timeout, alone=False):
    """specs: (name, command, env) of each variant. Returns the variants (those that could be
    started) and the failure, None where all went well. `alone`: one after the other, no turns."""
    if alone and len(specs) > 1:
        variants, failures = [], []
        for spec in specs:
            more, failure = run_in_turns([spec], repetitions, timeout)
            variants += more
            failures += [failure] if failure else []
        return variants, failures[0] if failures else None
    variants = []
    failure = None
    try:
        for name, command, env in specs:
            variants.append(Variant(name, command, env, timeout))
        for variant in variants:
            variant.await_ready()
        for turn in range(repetitions):
            order = variants if turn % 2 == 0 else variants[::-1]
            for variant in order:
                variant.take_turn()
                if turn + 1 < repetitions:
                    variant.await_ready()
        for variant in variants:
            variant.finish()
    except (Failure, OSError, ValueError) as error:
        failure = str(error)
    finally:
        for variant in variants:
            variant.kill()
    return variants, failure
