"""The demo: 2,000 events over real HTTP, delivered by jobs, held against the receiver's own log. Run by `make demo`.

`python -m examples.webhooks --help` lists the options. With `--kill` the web process gets a `kill -9` at a random moment (which
one follows from the seed) and is started again. The exit code is 0 only if every event was delivered or is in the dead
letters, and each destination got its events one at a time and in order.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from asyncjobs.embedded import Server, start_sync
from examples.webhooks.children import Child
from examples.webhooks.demo import Demo
from examples.webhooks.receiver import Arrival, arrivals
from examples.webhooks.report import Fate, dead_letters, show_table, tally

EVENTS = Path(__file__).with_name("events.jsonl")
MOST_EVENTS = 2_000
TAIL = 20  # lines of a log


def read_events(count: int) -> list[dict[str, Any]]:
    """The first `count` events of the file."""
    with EVENTS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


class Workspace:
    """A folder with a private PostgreSQL, which is up meanwhile, and the logs of the processes. Removed unless `keep` is set."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.folder = Path(tempfile.mkdtemp(prefix="asyncjobs-demo-"))
        self.folder.chmod(0o755)  # as root, PostgreSQL runs as another user, who has to get through
        self.delivered = self.folder / "delivered.jsonl"
        self.dsn = f"embedded://{self.folder / 'database'}"

    @contextmanager
    def open(self) -> Generator[Server]:
        """The PostgreSQL. What goes wrong meanwhile is followed by the last lines of the logs."""
        try:
            with closing(start_sync(self.folder / "database", linger=0)) as server:
                yield server
            server.wait_stopped()
        except Exception:
            self.keep = True
            raise
        finally:
            self._leave()

    def _leave(self) -> None:
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]
            sys.stderr.write("\n".join([f"-- {log}", *lines, ""]))
        sys.stderr.write(f"database and logs are kept in {self.folder}\n")


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


def deliver(options: argparse.Namespace, workspace: Workspace, console: Console) -> tuple[list[Fate], list[Arrival]]:
    """Run receiver and app, send the events, and find out what became of each that was accepted, and what arrived."""
    receiver = Child(
        "examples.webhooks.receiver", str(workspace.delivered), str(options.seed), log=workspace.folder / "receiver.log"
    )
    settings = {"ASYNCJOBS_DSN": workspace.dsn, "WEBHOOKS_RECEIVER": receiver.url}
    web = Child("examples.webhooks.app", log=workspace.folder / "web.log", environment=settings)
    events = read_events(options.events)
    with workspace.open() as server:
        demo = Demo(events, web, workspace.dsn, console=console)
        if options.kill:
            demo.crash_once(options.seed)
        with receiver, web:
            jobs = asyncio.run(demo.run(options.timeout))
        buried = asyncio.run(dead_letters(server.dsn))
        arrived = arrivals(workspace.delivered)
        accepted = Counter(arrival.event for arrival in arrived if arrival.accepted)
        fates = [
            Fate(event["type"], job, deliveries=accepted[event["id"]], is_dead_letter=job.id in buried)
            for event in events
            if (job := jobs.get(event["id"])) is not None
        ]
        workspace.keep |= not tally(fates, arrived).is_perfect(len(events))
    return fates, arrived


def main() -> int:
    """Run the demo; 0 when nothing was lost."""
    options = parse()
    console = Console()
    try:
        fates, arrived = deliver(options, Workspace(keep=options.keep), console)
    except KeyboardInterrupt:
        return 130
    show_table(console, fates)
    figures = tally(fates, arrived)
    sys.stdout.write(f"{figures}\n")
    return 0 if figures.is_perfect(options.events) else 1


if __name__ == "__main__":
    sys.exit(main())
