"""The demo loses nothing and keeps each destination's order, also when its web process is killed at a random moment."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.webhooks.__main__ import read_events
from examples.webhooks.receiver import REFUSING, Arrival
from examples.webhooks.report import Tally, out_of_order, tally

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(r"demo: enqueued=(\d+) completed=(\d+) dead=(\d+) lost=(\d+) overlapped=(\d+) out_of_order=(\d+)")


def run_demo(*arguments: str) -> tuple[Tally, str]:
    command = [sys.executable, "-m", "examples.webhooks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    output = done.stdout + done.stderr
    match = LAST_LINE.fullmatch(done.stdout.splitlines()[-1] if done.stdout else "")
    assert match, output
    assert done.returncode == 0, output
    return Tally(*map(int, match.groups())), output


def test_demo_delivers_every_event() -> None:
    tally, output = run_demo("--events", "60", "--seed", "1")
    assert tally.is_perfect(60), output


@pytest.mark.parametrize("seed", [3])
def test_killing_the_web_process_loses_nothing(seed: int) -> None:
    tally, output = run_demo("--events", "200", "--seed", str(seed), "--kill")
    assert "Killed the web process" in output
    assert tally.is_perfect(200), output
    assert tally.dead >= sum(event["destination"] in REFUSING for event in read_events(200)) > 0, output


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(1, 11))
def test_killing_the_web_process_at_ten_moments_loses_nothing(seed: int) -> None:
    test_killing_the_web_process_loses_nothing(seed)


def arrival(job: int, destination: str = "shop", *, overlapped: bool = False) -> Arrival:
    return Arrival(f"evt_{job}", destination, job, accepted=True, overlapped=overlapped)


def test_the_report_counts_what_came_late_or_at_the_same_time() -> None:
    assert out_of_order([arrival(1), arrival(1), arrival(2), arrival(1, "other"), arrival(3)]) == 0
    assert out_of_order([arrival(1), arrival(3), arrival(2), arrival(3)]) == 1
    counted = tally([], [arrival(2), arrival(1, overlapped=True)])
    assert (counted.overlapped, counted.out_of_order) == (1, 1)
    assert not counted.is_perfect(0)
