"""A control group whose processes together may take so many processors' time, as a container's."""

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100000


class NoQuota(Exception):
    """This machine lets us make no such group."""


def join(group):
    (group / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def quota(processors):
    """This process, and what it starts meanwhile, within the quota (processors, 1.5 for instance)."""
    newer = (ROOT / "cgroup.controllers").exists()
    root = ROOT if newer else ROOT / "cpu"
    group = root / f"quota-{os.getpid()}"
    us = int(processors * PERIOD_US)
    try:
        if newer:
            (root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if newer:
            (group / "cpu.max").write_text(f"{us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(us))
        join(group)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise NoQuota(f"no quota can be set here ({error})") from None
    try:
        yield
    finally:
        join(root)
        group.rmdir()
