"""The demo loses nothing, also when its web process is killed at a random moment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.webhooks.__main__ import read_events
from examples.webhooks.receiver import REFUSING
from examples.webhooks.report import Tally

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(r"demo: enqueued=(\d+) completed=(\d+) dead=(\d+) lost=(\d+)")


def run_demo(*arguments: str) -> tuple[Tally, str]:
    command = [sys.executable, "-m", "examples.webhooks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    output = done.stdout + done.stderr
    match = LAST_LINE.fullmatch(done.stdout.splitlines()[-1] if done.stdout else "")
    assert match, output
    assert done.returncode == 0, output
    return Tally(*map(int, match.groups())), output


def test_demo_delivers_every_event_or_keeps_it_among_the_dead_letters() -> None:
    tally, output = run_demo("--events", "200", "--seed", "1")
    assert (tally.enqueued, tally.completed + tally.dead, tally.lost) == (200, 200, 0), output
    assert tally.dead >= sum(event["destination"] in REFUSING for event in read_events(200)) > 0, output


@pytest.mark.parametrize("seed", [3])
def test_killing_the_web_process_loses_nothing(seed: int) -> None:
    tally, output = run_demo("--events", "200", "--seed", str(seed), "--kill")
    assert "Killed the web process" in output
    assert (tally.enqueued, tally.completed + tally.dead, tally.lost) == (200, 200, 0), output


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1, 11))
def test_killing_the_web_process_at_ten_moments_loses_nothing(seed: int) -> None:
    test_killing_the_web_process_loses_nothing(seed)
