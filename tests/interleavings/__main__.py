"""Play worlds: `python -m tests.interleavings --world 'head processing' --calls REGEX --having REGEX --triples 200 --patient`."""

import argparse
import asyncio
import random
import re
import time

from asyncjobs.testing import databases, server
from tests.interleavings.explorer import Explorer, Finding
from tests.interleavings.lab import Lab
from tests.interleavings.worlds import worlds

#: Deadlocks are found before a lock timeout ends them; the times of commits are kept.
SETTINGS = {"deadlock_timeout": "60ms", "track_commit_timestamp": "on"}


def _tell(finding: Finding) -> None:
    print(finding, flush=True)


async def _main(dsn: str, given: argparse.Namespace) -> int:
    count = 0
    async with Lab(dsn) as lab:
        for world in worlds():
            if re.search(given.world, world.name):
                began = time.monotonic()
                explorer = Explorer(lab, world, calls=given.calls, having=given.having, patient=given.patient, tell=_tell)
                await explorer.pairs()
                await explorer.triples(given.triples, random.Random(given.seed))
                seconds = time.monotonic() - began
                print(f"{world.name}: {dict(lab.runs)} in {seconds:.0f} s, {len(explorer.waiting)} pairs wait", flush=True)
                count += len(explorer.found)
    return count


def main() -> None:
    """Exit status 1 when there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("world", "calls", "having"):
        parser.add_argument("--" + name, default="", help="a regular expression")
    parser.add_argument("--triples", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patient", action="store_true", help="also wait until those who give up have given up")
    given = parser.parse_args()
    with server(SETTINGS) as dsn, databases(dsn) as made, made.fresh() as fresh:
        raise SystemExit(asyncio.run(_main(fresh, given)) > 0)


if __name__ == "__main__":
    main()
