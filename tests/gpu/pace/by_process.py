#!/usr/bin/env python3
"""One program in many processes, without and with the library in turn: what differs that is not the process?

    tests/gpu/pace/by_process.py --library build-gpu/preload/libautograph.so python3 tests/gpu/programs/decode.py
    tests/gpu/pace/by_process.py --gpus 2 --library build-gpu/preload/libautograph.so python3 tests/gpu/programs/nccl_train.py
    tests/gpu/pace/by_process.py --before OLD/libautograph.so --library build-gpu/preload/libautograph.so python3 ...

Any gated program of the suite: it is told --paced, --gated and --reps. As many lanes as the GPUs allow run it at the
same time, each with its own GPUs and processors. A lane begins a process only where all have ended theirs, and all
repeat at the same time: nobody makes a context while another is measured. Its main thread repeats on a processor that
goes at full speed (processors.py). The ratio is that of the geometric means of the processes' medians; behind it stands
what two standard errors leave.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
from pathlib import Path
from threading import BrokenBarrierError

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))
from processors import Processors, without_lowest  # noqa: E402
from rounds import Failure, Loaded, Variant, run_once  # noqa: E402
from suite import ops_a_graph, replayed  # noqa: E402

EAGER, BEFORE, AUTOGRAPH = "eager", "before", "autograph"
TIMEOUT_S = 120.0


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--library", required=True, help="preloaded in every other process")
    p.add_argument("--before", help="preloaded in the others: two libraries are compared, not one with eager")
    p.add_argument("--gpus", type=int, default=1, help="of one process")
    p.add_argument("--rounds", type=int, default=3, help="processes of each variant in a lane")
    p.add_argument("--reps", type=int, default=20, help="measured repetitions of a process")
    p.add_argument("--env", action="append", default=[], metavar="N=V", help="added where the library is")
    p.add_argument("command", nargs=argparse.REMAINDER, help="program and its options")
    args = p.parse_args()
    if not args.command or any("=" not in pair for pair in args.env):
        p.error("no program, or an --env without a value")
    return args


def environment(args, variant, lane):
    first = lane * args.gpus
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(first, first + args.gpus)))}
    library = {AUTOGRAPH: args.library, BEFORE: args.before}.get(variant)
    if library:
        env.update(LD_PRELOAD=os.path.abspath(library), AUTOGRAPH_STATS="1")
        env.update(pair.split("=", 1) for pair in args.env)
    return env


def run_lane(args, lane, share, barrier, results):
    """Puts (lane, variant, times, checksum, what it said) of each process; a failure instead of the times."""
    os.sched_setaffinity(0, share)
    processors = Processors(share)
    command = [*args.command, "--paced", f"--reps={args.reps}"]
    specs = [(name, command, environment(args, name, lane)) for name in (BEFORE if args.before else EAGER, AUTOGRAPH)]
    loaded = Loaded(specs, args.rounds, TIMEOUT_S)
    try:
        for _, (name, _, env) in itertools.product(range(args.rounds), specs[::-1] if lane % 2 else specs):
            barrier.wait(TIMEOUT_S)
            variant = Variant(name)
            failure = run_once(variant, command, env, args.reps, TIMEOUT_S, loaded.take(name), processors,
                               lambda: barrier.wait(TIMEOUT_S))
            if failure:
                raise Failure(failure)
            results.put((lane, name, variant.times(), variant.checksums().pop(), variant.error_text))
    except (Failure, BrokenBarrierError) as error:
        results.put((lane, None, str(error) or "another lane failed", None, ""))
        barrier.abort()
    finally:
        loaded.end()
        results.put(None)


def shares(lanes):
    """The processors of each lane."""
    allowed = without_lowest(os.sched_getaffinity(0), least=4 * lanes)
    each = len(allowed) // lanes
    return [allowed[lane * each:(lane + 1) * each] for lane in range(lanes)]


def measure(args, lanes):
    """What run_lane puts, of all lanes."""
    barrier, results = multiprocessing.Barrier(lanes), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=run_lane, args=(args, lane, share, barrier, results))
               for lane, share in enumerate(shares(lanes))]
    for worker in workers:
        worker.start()
    found, ended = [], 0
    while ended < lanes:
        result = results.get()
        if result is None:
            ended += 1
        else:
            found.append(result)
    for worker in workers:
        worker.join()
    return found


def compared(eager, autograph):
    """Ratio of the geometric means, and the least and the most that two standard errors leave."""
    logs = [[math.log(us) for us in times] for times in (eager, autograph)]
    error = math.sqrt(sum(statistics.variance(values) / len(values) for values in logs))
    ratio = statistics.mean(logs[0]) - statistics.mean(logs[1])
    return [math.exp(ratio + shift * error) for shift in (0, -2, 2)]


def report(found):
    print("| lane | variant   | median us | fastest | slowest | replayed | ops a graph |\n"
          "| ---: | --------- | --------: | ------: | ------: | -------: | ----------: |")
    for lane, variant, times, _, said in found:
        share, length = replayed(said), ops_a_graph(said)
        print(f"| {lane:4} | {variant:9} | {statistics.median(times):9.1f} | {min(times):7.1f} | {max(times):7.1f} "
              f"| {'-' if share is None else f'{share:.1%}':>8} | {'-' if length is None else f'{length:.1f}':>11} |")
    other = next((variant for _, variant, _, _, _ in found if variant != AUTOGRAPH), EAGER)
    medians = {variant: [statistics.median(times) for _, name, times, _, _ in found if name == variant]
               for variant in (other, AUTOGRAPH)}
    for variant, values in medians.items():
        print(f"{variant}: {len(values)} processes, {min(values):.1f} to {max(values):.1f}, median {statistics.median(values):.1f}")
    if min(map(len, medians.values())) >= 2:
        print(other + " / autograph by processes: {:.3f}x ({:.3f} to {:.3f})".format(*compared(*medians.values())))
    else:
        print("too few processes to compare")
    same = len({checksum for _, _, _, checksum, _ in found}) == 1
    print("results: " + ("identical" if same else "DIFFERENT"))
    return 0 if same else 1


def main():
    args = parse_arguments()
    count = subprocess.run([sys.executable, HERE / "gpus.py"], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    lanes = int(count.stdout) // args.gpus
    if not lanes:
        print("SKIP: too few GPUs")
        return 0
    found = measure(args, lanes)
    for lane, variant, why, _, _ in found:
        if variant is None:
            print(f"lane {lane}: {why}")
            return 1
    return report(found)


if __name__ == "__main__":
    sys.exit(main())
