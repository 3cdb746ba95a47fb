"""The page of results, docs/gpu-results.md: a section for each part of the suite, with where it came from."""

import datetime
import platform
import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
HEAD = """# Results on a GPU
Written by `./tests/gpu/run` with `--markdown docs/gpu-results.md`; each section is the last whole run of its part.
"""


def said_by(*command):
    """The first line that a command prints; None where it cannot run."""
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def processor():
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def commit():
    """What a file .commit says, which comes with sources that were copied; else what is checked out."""
    try:
        return (TOP / ".commit").read_text(encoding="utf-8").strip()
    except OSError:
        return said_by("git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*") or "unknown"


def origin():
    """Commit, machine and date of a run that is being made now."""
    gpu = said_by("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpu = "{}, driver {}".format(*gpu.split(", ")) if gpu and ", " in gpu else gpu or "GPU unknown"
    release = said_by("bash", "-c", "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc --version | grep -o 'release [0-9.]*'")
    toolkit = release.replace("release", "CUDA Toolkit") if release else "CUDA Toolkit unknown"
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return f"Commit {commit()}; {gpu}; {processor()}; {toolkit}; {today}."


def put_section(path, heading, text, made_by=None):
    """Writes a section of the page in place of the one of that name, or at the end."""
    section = f"## {heading}\n{made_by or origin()}\n\n{text.strip()}\n"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    others = re.split(r"(?m)^(?=## )", old)[1:]
    names = [other.splitlines()[0][3:] for other in others]
    if heading in names:
        others[names.index(heading)] = section
    else:
        others.append(section)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEAD, *(other.strip() + "\n" for other in others)]), encoding="utf-8")
