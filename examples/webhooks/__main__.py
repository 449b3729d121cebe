"""The demo: 2,000 events over real HTTP, delivered by jobs, held against the receiver's own log. Run by `make demo`.

`python -m examples.webhooks --help` lists the options. With `--kill` the web process gets a `kill -9` at a random moment (which
one follows from the seed) and is started again. The exit code is 0 only if every event was delivered or is in the dead letters.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from asyncjobs.embedded import start_sync
from examples.webhooks.children import Child
from examples.webhooks.demo import Demo
from examples.webhooks.receiver import delivered_events
from examples.webhooks.report import Fate, show_table, tally

EVENTS = Path(__file__).with_name("events.jsonl")
MOST_EVENTS = 2_000


def read_events(count: int) -> list[dict[str, Any]]:
    """The first `count` events of the file."""
    with EVENTS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


@contextmanager
def workspace(*, keep: bool) -> Generator[Path]:
    """A folder with a private PostgreSQL in `database`, which is up meanwhile. Removed at the end unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="asyncjobs-demo-"))
    folder.chmod(0o755)  # as root, PostgreSQL runs as another user, who has to get through
    try:
        with closing(start_sync(folder / "database", linger=0)) as server:
            yield folder
        server.wait_stopped()
    except BaseException:
        keep = True
        raise
    finally:
        if keep:
            sys.stderr.write(f"database and logs: {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.webhooks", description="Deliver webhooks by background jobs.")
    parser.add_argument("--events", type=int, default=MOST_EVENTS, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="decides what fails and when (default: %(default)s)")
    parser.add_argument("--kill", action="store_true", help="kill -9 the web process once, at a random moment, and restart it")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="give up after (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the database and the logs")
    options = parser.parse_args(arguments)
    if not 1 <= options.events <= MOST_EVENTS:
        parser.error(f"--events {options.events}: there are {MOST_EVENTS}")
    return options


def main() -> int:
    """Run the demo; 0 when nothing was lost."""
    options = parse()
    console = Console()
    events = read_events(options.events)
    with workspace(keep=options.keep) as folder:
        delivered, dsn = folder / "delivered.jsonl", f"embedded://{folder / 'database'}"
        receiver = Child("examples.webhooks.receiver", str(delivered), str(options.seed), log=folder / "receiver.log")
        settings = {"ASYNCJOBS_DSN": dsn, "WEBHOOKS_RECEIVER": receiver.url}
        web = Child("examples.webhooks.app", log=folder / "web.log", environment=settings)
        demo = Demo(events, web, dsn, console=console)
        if options.kill:
            demo.crash_once(options.seed)
        with receiver, web:
            jobs = asyncio.run(demo.run(options.timeout))
        arrived = delivered_events(delivered)
    fates = [Fate(event["type"], jobs[event["id"]], arrived[event["id"]]) for event in events if event["id"] in jobs]
    show_table(console, fates)
    figures = tally(fates)
    sys.stdout.write(f"{figures}\n")
    return 0 if figures.enqueued == len(events) == figures.completed + figures.dead and not figures.lost else 1


if __name__ == "__main__":
    sys.exit(main())
