"""`python -m tests.simulation --seeds 1000`: simulate so many worlds; of the first that breaks a promise, what happened in it."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from itertools import zip_longest

import structlog

from asyncjobs.testing.databases import databases
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
    parser.add_argument("--twice", action="store_true", help="simulate each twice, and compare")
    parser.add_argument("--mutant", help="break the protocol in this way, and stop at the first seed that shows it")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of strings are walked through in the same order in each replay
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if given.dsn:
        return _on(given.dsn, given)
    with running_server() as dsn:
        return _on(dsn, given)


def _on(server_dsn: str, given: argparse.Namespace) -> int:
    with databases(server_dsn) as made, made.fresh() as dsn:
        server = Server(dsn)
        try:
            return _run(server, range(given.first, given.first + given.seeds), given)
        finally:
            server.close()


def _run(server: Server, seeds: Sequence[int], given: argparse.Namespace) -> int:
    began = time.perf_counter()
    failed: list[Result] = []
    calls = jobs = 0
    for seed in seeds:
        result = simulate(seed, server)
        if given.twice:
            again = simulate(seed, server)
            if again.digest != result.digest:
                at = next(at for at, pair in enumerate(zip_longest(result.lines, again.lines)) if pair[0] != pair[1])
                print(f"seed {seed} did not replay from event {at}:", *result.lines[at - 8:at + 2], "--", *again.lines[at - 1:at + 2], sep="\n")
                return 1
        calls, jobs = calls + result.calls, jobs + result.jobs
        if given.trace:
            print(*result.lines, sep="\n")
        if result.violations:
            failed.append(result)
            print(f"seed {seed}:", *result.violations[:10], sep="\n  ")
        if given.trace:
            print(f"seed {seed}: {result.digest}")
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds, {calls} calls, {jobs} enqueues in {seconds:.0f} s: {len(failed)} broke a promise")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
