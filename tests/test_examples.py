"""Every example runs as a user runs it, and prints what it promises."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncjobs.embedded import Server, start_sync
from asyncjobs.testing.server import FAST
from examples.webhooks.make_events import make_events
from tests.support.doors import need_django
from tests.support.plugin import with_plugin

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

OUTPUT = {
    "quickstart.py": ["Hello, Ada!", "Cześć, Żaneta!"],
    "fastapi_app.py": [
        "/orders {'status': 'completed', 'result': 42}",
        "/orders/blocking {'status': 'completed', 'result': 42}",
    ],
    "aiohttp_app.py": ["[{'left': 7}, {'left': 3}]"],
    "routers": [
        "welcomed ada@example.com from queue mail",
        "6 words",
        "newsletter: issue 11 for ann@example.com - report-2026-11",
    ],
    "transactional_enqueue.py": [
        "SQLAlchemy: order 1 confirmed to Ada",
        "rolled back: None",
        "asyncpg: order 3 confirmed to Eve",
    ],
    "django_app": ["declined: {'order': None}", "result:   confirmed to Ada"],
    "retry_and_snooze.py": [
        "retry.flaky     completed attempts=3 snoozes=0 went through at attempt 3",
        "retry.hopeless  dead      attempts=2 snoozes=0 ValueError: no way",
        "retry.throttled completed attempts=2 snoozes=0 accepted",
        "retry.polls     completed attempts=1 snoozes=2 ready",
        "retry.unwanted  dead      attempts=1 snoozes=0 no such mailbox",
        "retry.unwanted  cancelled attempts=1 snoozes=0 unsubscribed",
    ],
    "dedup.py": ["again: the same job", "raise: DuplicateJob", "ran:   all of it", "later: known for an hour"],
    "circuit_breaker.py": [
        "customer 0: no answer",
        "customer 1: no answer",
        "customer 2: no answer",
        "customer 3: refused, breaker.sms is not called",
        "alarm: scheduled, attempts=0",
        "while it was open: ['customer 0', 'customer 1', 'customer 2']",
        "['texted Ada', 'texted Eve', 'texted Joe'] alarmed Kim",
        "open because the provider works on it",
    ],
    "serialized.py": [
        "bonn in order",
        "lima in order",
        "oslo in order",
        "1.9 is out",
        "halted: RuntimeError: migration failed (1 waiting)",
        "2.1 is out",
    ],
    "scheduled.py": [
        "run_at is scheduled until its time comes",
        "now: do not forget the tea, on time",
        "delay: do not forget the cake, on time",
        "run_at: do not forget the milk, on time",
    ],
    "schedules.py": [
        "often: report of visits",
        "schedules.hourly: @hourly, UTC, queue",
        "schedules.nightly: 30 2 * * *, Europe/Helsinki, allow",
        "schedules.often: 0:00:00.500000, UTC, skip",
        "now: cleaned up",
        "disabled: stocktaking",
    ],
    "duty.py": [
        "left: [3]",
        "duty.expire_carts is done by this runner, with 0 errors",
    ],
    "two_runners.py": ["SIGTERM: the other one took over", "SIGKILL: the other one took over"],
    "results.py": [
        "result:   Invoice(number='2026-17', total=Decimal('20.00'))",
        "later:    Invoice(number='2026-17', total=Decimal('20.00'))",
        "as a row: 20.00",
        "died:     nothing to add up",
        "not yet:  still running",
        "done:     1000",
    ],
    "dead_letters.py": [
        """unseen: ["KeyError: '???'", "KeyError: 'cocoa'", "KeyError: 'cocoa'"]""",
        "the first: {'item': 'cocoa', 'quantity': 2} - KeyError: 'cocoa'",
        "would be: {'requeued': 2}",
        "requeued: 10",
        "requeued: 10",
        "unseen: []",
    ],
    "prefetch.py": ["careful: 1000 clicks", "eager: 1000 clicks"],
    "lanes.py": ["mailed ada@example.com beside 3 exports", "at most 3 exports at a time"],
    "pause_and_drain.py": [
        "mailed ada@example.com",
        'why not: its type "pause.thumbnail" is paused by ada: the storage is full.',
        "cat.png is small now",
        "still running after the drain: 0",
        "paused: [('queue', 'pictures')]",
        "fox.png is small now",
    ],
    "testing_your_jobs.py": ["4 passed"],
    "dependencies.py": [
        "client opened",
        "dependencies.fetch: committed ['200 /good']",
        "audit: dependencies.fetch for example: completed",
        "dependencies.fetch: rolled back, a bad page",
        "audit: dependencies.fetch for example: dead",
        "client closed",
    ],
    "payload_versions.py": [
        "of yesterday: today's handler paid 12.50 EUR",
        "of today:     today's handler paid 19.90 SEK",
        "as stored:    version 1, {'euros': 12.5}",
    ],
    "dashboard_in_fastapi.py": [
        "a stranger gets 401",
        "grace reads: it is due at … and may act: False",
        "cancelled since Kim called (cancelled by ada)",
    ],
    "metrics.py": [
        "completed: 8.0",
        "dead: 2.0",
        "run times: 10.0",
        "slots: 1.0 fast, 3.0 general",
        "scheduled: 1.0",
    ],
    "tracing.py": [
        "POST /orders",
        "  enqueue tracing.charge",
        "    attempt tracing.charge retry",
        "    attempt tracing.charge completed",
        "      ask the bank",
        "linked by acks: 2",
    ],
    "graceful_shutdown.py": [
        "at the stop: short finished",
        "at the stop: long cleaned up",
        "long is pending with 0 attempts spent",
        "next runner: finished in attempt 1",
    ],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What `embedded://` means to the examples: it is new, and is up for as long as they run."""
    with tempfile.TemporaryDirectory(prefix="asyncjobs-examples-") as folder:
        state = Path(folder)
        state.chmod(0o755)  # root's PostgreSQL runs as nobody
        with closing(start_sync(state / "asyncjobs", linger=0, settings=FAST)) as server:
            yield server
        server.wait_stopped()


@pytest.fixture
def environment(server: Server) -> dict[str, str]:
    """An environment in which it is the embedded one."""
    place = str(server.folder.parent)
    return with_plugin(os.environ | {"XDG_STATE_HOME": place, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"})


@pytest.mark.parametrize("name", OUTPUT)
def test_example_prints_what_it_promises(name: str, environment: dict[str, str], server: Server) -> None:
    if name == "django_app":
        need_django(server.dsn)
    command = [f"examples/{name}"] if name.endswith(".py") else ["-m", f"examples.{name}"]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [re.sub(r"(passed) in .*", r"\1", line) for line in done.stdout.splitlines()]
    assert [line for line in printed if line in OUTPUT[name]] == OUTPUT[name], done.stdout + done.stderr


def test_no_example_is_left_out() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith("__")}
    deployed = {"worker.py", "docker-compose.yml", "kubernetes", "monitoring"}  # tests/test_deployment.py
    elsewhere = {"webhooks", "shop"}  # tests/e2e/test_demo.py, tests/documents/test_tutorial.py
    assert there == OUTPUT.keys() | deployed | elsewhere


def test_events_of_the_demo_are_what_their_generator_makes() -> None:
    lines = (EXAMPLES / "webhooks" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == list(make_events())
