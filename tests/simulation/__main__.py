"""`python -m tests.simulation --seeds 1000`: simulate so many worlds; of the first that breaks a promise, what happened in it."""

import argparse
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import zip_longest

import structlog

from asyncjobs.testing.databases import databases
from tests.simulation.course import SCENES, draw
from tests.simulation.mutants import MUTANTS, Simulated, mutated
from tests.simulation.server import Server
from tests.simulation.simulate import Result, simulate
from tests.support.server import running_server


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--dsn", help="a server to use; else one is started")
    parser.add_argument("--trace", action="store_true", help="print what happened in each")
    parser.add_argument("--kind", choices=["quarrels", "is_unruly", "is_calm", *SCENES], help="only such worlds")
    parser.add_argument("--twice", action="store_true", help="simulate each twice, and compare")
    parser.add_argument("--mutants", help="break the protocol instead, in each way whose name has this in it: is it caught?")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings are walked through in the same order in each replay
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # of processes that were killed
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if given.dsn:
        return _on(given.dsn, given)
    with running_server() as dsn:
        return _on(dsn, given)


def _on(server_dsn: str, given: argparse.Namespace) -> int:
    with databases(server_dsn) as made, made.fresh() as dsn:
        server = Server(dsn)
        try:
            seeds = range(given.first, given.first + given.seeds)
            return _run(server, [seed for seed in seeds if given.kind is None or _is_of(seed, given.kind)], given)
        finally:
            server.close()


def _is_of(seed: int, kind: str) -> bool:
    course = draw(seed)
    return course.scene == kind if kind in SCENES else bool(getattr(course, kind))


def _run(server: Server, seeds: Sequence[int], given: argparse.Namespace) -> int:
    if given.mutants is None:
        return 1 if _simulated(server, seeds, given) else 0
    mutants = [mutant for mutant in MUTANTS if given.mutants in mutant.name]
    missed = [mutant.name for mutant in mutants if not _is_caught(server, seeds, mutant, trace=given.trace)]
    print(f"{len(mutants) - len(missed)} of {len(mutants)} mutants were caught within {len(seeds)} seeds")
    return 1 if missed else 0


def _is_caught(server: Server, seeds: Sequence[int], mutant: Simulated, *, trace: bool) -> bool:
    """Whether one of the seeds notices. Those whose worlds lack what it takes are passed over."""
    simulated = 0
    with mutated(mutant, server):
        for seed in seeds:
            if not mutant.needs(draw(seed)):
                continue
            simulated += 1
            result = simulate(seed, server)
            if trace:
                print(*result.lines, sep="\n")
            if result.violations:
                print(f"caught by seed {seed}, the {simulated}. that could: {mutant.name}: {result.violations[0]}", flush=True)
                return True
    print(f"not caught by {simulated} seeds that could: {mutant.name}", flush=True)
    return False


def _simulated(server: Server, seeds: Sequence[int], given: argparse.Namespace) -> list[int]:
    began = time.perf_counter()
    failed: list[int] = []
    calls = jobs = 0
    for seed in seeds:
        result = simulate(seed, server)
        calls, jobs = calls + result.calls, jobs + result.jobs
        if given.trace:
            print(*result.lines, f"seed {seed}: {result.digest}", sep="\n")
        problems = result.violations or (_replayed(result, server) if given.twice else [])
        if problems:
            failed.append(seed)
            print(f"seed {seed}:", *problems[:12], sep="\n  ", flush=True)
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds, {calls} calls, {jobs} enqueues in {seconds:.0f} s: {len(failed)} broke a promise")
    return failed


def _replayed(first: Result, server: Server) -> list[str]:
    """How the seed's second run differs."""
    again = simulate(first.seed, server)
    for at, (one, other) in enumerate(zip_longest(first.lines, again.lines)):
        if one != other:
            return [f"did not replay from event {at} on:", *first.lines[max(at - 5, 0) : at], f"- {one}", f"+ {other}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
