"""`python -m tests.soak`: a storm (`storm.py`), then more than can be (`overload.py`). Returns 1 when a promise was broken."""

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from asyncjobs.store.database import Database
from asyncjobs.store.migrate import migrate
from asyncjobs.testing import install_line
from tests.soak.figures import growth, table
from tests.soak.overload import Load, LoadReport, Overload
from tests.soak.storm import Plan, Report, Storm
from tests.support.embedded import open_folder
from tests.support.own_server import started

#: Three runners, the enqueuing process, the looks at them, and those of killed runners that the server has not missed yet.
SERVER = {"max_connections": "120", "shared_buffers": "256MB"}
#: What a process may hold more after it had its hands full: callers by the ten thousand leave fragments.
_LOAD_MIB = 100.0


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="so many from end to end (%(default)s)")
    parser.add_argument("--minutes", type=float, default=15.0, help="begin nothing more after so many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another order of events")
    parser.add_argument("--load-seconds", type=float, default=60.0, help="so long twice what is sustained (%(default)s)")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    plan = Plan(jobs=given.jobs, seconds=given.minutes * 60, seed=given.seed)
    with open_folder() as folder, started(folder / "server", SERVER) as server, tempfile.TemporaryDirectory() as spools:
        asyncio.run(_migrate(server.dsn))
        server.fresh()
        is_good = _said(asyncio.run(Storm(server, plan, Path(spools)).run()), plan)
        server.fresh()
        load = asyncio.run(Overload(server, Load(seconds=given.load_seconds), Path(spools)).run())
        print(load)
    return 0 if is_good and is_recovered(load) else 1


async def _migrate(dsn: str) -> None:
    database = Database(dsn)
    await migrate(database)
    await install_line(database)


def _said(report: Report, plan: Plan) -> bool:
    grown = growth(report.samples)
    is_whole = report.accepted >= plan.jobs and report.kills >= plan.kills
    is_whole = is_whole and report.restarts == plan.restarts and report.partitions == plan.partitions
    print(
        f"{report.accepted:,} jobs accepted ({report.uncertain:,} uncertain) in {report.seconds:.0f} s: {report.kills} kills, "
        f"{report.restarts} restarts of the server, {report.partitions} partitions"
    )
    print(table(report.samples))
    print(*(grown or ["memory and connections are flat"]), sep="\n")
    print(report.verdict)
    if not is_whole:
        print(f"the time was over before all was done: {plan.jobs:,} jobs, {plan.kills} kills")
    return report.verdict.is_clean and not grown and is_whole


def is_recovered(load: LoadReport) -> bool:
    """Nothing was lost, memory is as before, and jobs start as fast as before, give or take what a busy machine does."""
    grown = [
        f"memory grew: {before:.0f}, then {after:.0f} MiB"
        for before, _, after in (load.client_mib, load.runner_mib)
        if after > before + _LOAD_MIB
    ]
    slow = load.after.started_ms > 5 * load.before.started_ms + 100.0
    print(*(grown or ["memory is as before"]), "jobs start later than before" if slow else "jobs start as before", sep="\n")
    return load.verdict.is_clean and not grown and not slow


if __name__ == "__main__":
    sys.exit(main())
