#!/usr/bin/env python3
"""What it would gain to submit the ops of a chunk before the chunk is whole, in a model of host, submitter and GPU.

    tests/policy/group_commit.py [--noise N]...

A step is OPS kernels of KERNEL us with GAP us of host work before each, then a sync or none. Three ways of submitting it:

    inline   the program's thread launches each chunk as its last op comes
    thread   a second thread launches whole chunks, as the library's submitter does
    group    that thread takes the largest graph whose ops have all come, or single ops, and may wait for a larger one
             as long as the GPU is busy: the group commit of databases, of every op

Each way gets, for each cell, the best of many settings in hindsight: 100 plans of chunks, or 48 rules of a group commit. A
single op is an eager launch in one half of them, and a graph of one in the other. So the ways are compared at their best,
and nothing that learns is part of it. The time that is saved counts as a share of what launches without any cost would
save. NOISE: by how much host work varies (0.5: by half; with pauses of up to 20 us in one of 100 ops). Takes 20 s for each
NOISE (0, 0.5 and 1).
"""
import argparse
import itertools
import random
import statistics

# Microseconds, in round figures of an H200 (docs/performance.md): an eager launch; a graph launch, and for each op of it; to
# keep an op's arguments; until another thread sees them; between two kernels of a graph, more between two graphs, and
# between two eager launches; from a launch to its first kernel; from the last kernel to the end of a sync.
EAGER, GRAPH, GRAPH_OP, KEEP, HAND, IN_GRAPH, GRAPHS, KERNELS, START, SYNC = 3.6, 2.0, 0.03, 0.1, 0.15, 0.1, 1.1, 1.0, 2.5, 3.0
AHEAD = 1000  # ops that fit into the driver's queue
RING_US = 300  # how far the program may be ahead of the submitter
KERNEL_US, GAP_US, OPS = (1, 2, 5, 10), (0.3, 1, 3, 5, 10), (1, 2, 5, 20, 100)
OPS_A_CELL = 400
LIMITING = 1.1  # cells in which launches without a cost would gain less do not count, as in tests/gpu/matrix
ALONE = (1, 2)  # the least ops of a graph
PLANS = [(first, growth, limit, least) for first in (1, 2, 4, 8, 16) for growth in (2, 4) for limit in (1, 2, 4, 8, 16, 32, 64)
         for least in ALONE if limit >= first]
SIZES = [(64, 32, 16, 8, 4, 2), (64, 16, 4), (64, 16, 4, 1), (32, 8, 2)]
RULES = list(itertools.product((1, 2, 4), SIZES, (False, True), ALONE))  # least ops, sizes of graphs, whether it waits


class Gpu:
    """When it has done all that it was given, us."""

    def __init__(self):
        self.free = 0.0

    def takes(self, now, ops, kernel, least):
        """Submits ops at that time: a graph, or one kernel. Returns when the call ends."""
        if ops < least:
            now += EAGER
            self.free = max(self.free + KERNELS, now + START) + kernel
        else:
            now += GRAPH + GRAPH_OP * ops
            self.free = max(self.free + GRAPHS, now + START) + ops * (kernel + IN_GRAPH)
        return now


def run(steps, kernel, sync, submit):
    """us for all steps. submit(gpu, now, gaps) returns when the program's thread goes on, and when all is submitted."""
    gpu, now, submitted = Gpu(), 0.0, 0.0
    for gaps in steps:
        now, submitted = submit(gpu, now, submitted, gaps)
        now = max(now, submitted, gpu.free) + SYNC if sync else max(now, gpu.free - AHEAD * kernel, submitted - RING_US)
    return max(now, gpu.free, submitted)


def eager(kernel):
    def submit(gpu, now, _, gaps):
        for gap in gaps:
            now = gpu.takes(now + gap, 1, kernel, 2)
        return now, now
    return submit


def free(kernel):
    def submit(gpu, now, _, gaps):
        for gap in gaps:
            now += gap
            gpu.free = max(gpu.free, now + START) + kernel + IN_GRAPH
        return now, now
    return submit


def chunks(ops, first, growth, limit, _):
    size = first
    while ops:
        yield min(size, ops)
        ops -= min(size, ops)
        size = min(size * growth, limit)


def inline(kernel, plan):
    def submit(gpu, now, _, gaps):
        at = 0
        for size in chunks(len(gaps), *plan):
            now += sum(gaps[at:at + size]) + (KEEP * size if size > 1 else 0)
            now = gpu.takes(now, size, kernel, plan[-1])
            at += size
        return now, now
    return submit


def arrivals(now, gaps):
    """When the submitter sees each op."""
    return [now + came + KEEP * (i + 1) + HAND for i, came in enumerate(itertools.accumulate(gaps))]


def thread(kernel, plan):
    def submit(gpu, now, submitted, gaps):
        came, at = arrivals(now, gaps), 0
        for size in chunks(len(gaps), *plan):
            at += size
            submitted = gpu.takes(max(submitted, came[at - 1]), size, kernel, plan[-1])
        return came[-1] - HAND, submitted
    return submit


def group(kernel, rule):
    least, sizes, waits, of_graphs = rule

    def submit(gpu, now, submitted, gaps):
        came, at, ops = arrivals(now, gaps), 0, len(gaps)
        while at < ops:
            fit = [size for size in sizes if at % size == 0 and at + size <= ops]
            few = min(least, ops - at)
            start = max(submitted, came[at + few - 1])
            size = next((size for size in fit if came[at + size - 1] <= start), few)
            larger = min((more for more in fit if more > size), default=0)
            if waits and larger and came[at + larger - 1] < gpu.free - GRAPH - START:
                submitted = max(start, came[at + larger - 1])
                continue
            submitted = gpu.takes(start, size, kernel, of_graphs)
            at += size
        return came[-1] - HAND, submitted
    return submit


def cells(noise):
    """For each cell: kernel, gap, ops, sync, and the share that each way saves at its best."""
    for kernel, gap, ops, sync in itertools.product(KERNEL_US, GAP_US, OPS, (True, False)):
        source = random.Random(1)

        def work():
            pause = 20 * source.random() if noise and source.random() < 0.01 else 0
            return gap * (1 + noise * (2 * source.random() - 1)) + pause
        steps = [[work() for _ in range(ops)] for _ in range(max(6, OPS_A_CELL // ops))]
        now, best = (run(steps, kernel, sync, way(kernel)) for way in (eager, free))
        if now < LIMITING * best:
            continue
        ways = [min(run(steps, kernel, sync, way(kernel, setting)) for setting in settings)
                for way, settings in ((inline, PLANS), (thread, PLANS), (group, RULES))]
        yield kernel, gap, ops, sync, *((now - us) / (now - best) for us in ways)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=float, action="append")
    parts = [("all", lambda c: True), ("no sync", lambda c: not c[3])]
    parts += [("sync behind %d" % ops, lambda c, ops=ops: c[3] and c[2] == ops) for ops in OPS]
    # 3 us of host work or more, and kernels of at most 5: the goal of 92 %
    slow = [("slow host, %s" % name, lambda c, among=among: c[1] >= 3 and c[0] <= 5 and among(c)) for name, among in parts]
    parts += slow
    for noise in parser.parse_args().noise or (0, 0.5, 1):
        found = list(cells(noise))
        print("noise %g, %d cells: median of what is saved, %%" % (noise, len(found)))
        print("%26s %7s %7s %7s   %s" % ("", "inline", "thread", "group", "the better of inline and thread; with group (mean)"))
        for name, among in parts:
            shares = [c[4:] for c in found if among(c)]
            medians = [100 * statistics.median(way) for way in zip(*shares)]
            better = [[100 * max(s[:n]) for s in shares] for n in (2, 3)]
            print("%26s %7.1f %7.1f %7.1f   %.1f; %.1f (%.1f; %.1f)" % (
                name, *medians, *map(statistics.median, better), *map(statistics.mean, better)))
        most = sorted(found, key=lambda c: max(c[4:6]) - c[6])[:3]
        print("  group gains most in: " + "; ".join("%d:%g:%d:%d, %.0f for %.0f" % (
            *c[:4], 100 * c[6], 100 * max(c[4:6])) for c in most))


if __name__ == "__main__":
    main()
