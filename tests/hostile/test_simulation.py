"""Whole runners in simulated worlds that fail: the promises hold in each, a seed replays, and a broken protocol is noticed."""

import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from asyncjobs.store.database import Connection
from tests.simulation.course import SCENES, draw
from tests.simulation.mutants import MUTANTS
from tests.simulation.schema import FUNCTIONS, as_written, name_of

#: Seeds of such worlds, soon played.
UNRULY = 1
QUARREL = 39
_PROOF = 2000
_CHUNK = 100
#: So many seeds notice each mutant.
_MISSED_WITHIN = 200


def _simulate(server_dsn: str, *args: str) -> str:
    """What `python -m tests.simulation` printed. In a process of its own, for its clocks and its chance are not real."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--dsn", server_dsn, *args],
        env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


@pytest.mark.direct("the simulation puts itself in the driver's place")
def test_promises_hold_in_simulated_worlds_and_seeds_replay_event_by_event(server_dsn: str) -> None:
    assert "2 seeds" in _simulate(server_dsn, "--first=7", "--seeds=2", "--twice")


@pytest.mark.direct("the simulation puts itself in the driver's place")
def test_promotion_that_tells_nobody_is_noticed(server_dsn: str) -> None:
    assert "1 of 1 mutants" in _simulate(server_dsn, "--mutants=promotion tells nobody", "--first=7", "--seeds=1")


@pytest.mark.direct("the simulation puts itself in the driver's place")
def test_promises_hold_where_applications_leak_and_programs_exit(server_dsn: str) -> None:
    assert "1 seeds" in _simulate(server_dsn, f"--first={UNRULY}", "--seeds=1", "--kind=is_unruly")


@pytest.mark.direct("the simulation puts itself in the driver's place")
def test_promises_hold_where_all_calls_wait_for_each_other(server_dsn: str) -> None:
    assert "1 seeds" in _simulate(server_dsn, f"--first={QUARREL}", "--seeds=1", "--kind=quarrels")


async def test_what_breaks_the_protocol_is_in_it(connection: Connection) -> None:
    """A protocol that is broken where it no longer is would prove nothing."""
    found = [as_written(row[0]) for row in await connection.fetch(FUNCTIONS)]
    definitions = {name_of(one): one for one in found}
    changes = [change for mutant in MUTANTS for change in mutant.changes]
    assert [change for change in changes if change.old not in definitions[change.function]] == []
    with ExitStack() as stack:
        for mutant in MUTANTS:
            for patch in mutant.patches():
                stack.enter_context(patch)


def test_each_broken_protocol_meets_worlds_that_can_show_it() -> None:
    courses = [draw(seed) for seed in range(_MISSED_WITHIN)]
    assert [mutant.name for mutant in MUTANTS if not any(map(mutant.needs, courses))] == []
    assert {course.scene for course in courses} == {"", *SCENES}


@pytest.mark.proof
@pytest.mark.parametrize("first", range(0, _PROOF, _CHUNK))
def test_promises_hold_in_thousands_of_simulated_worlds(first: int, server_dsn: str) -> None:
    _simulate(server_dsn, f"--first={first}", f"--seeds={_CHUNK}")


@pytest.mark.proof
@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS])
def test_broken_protocol_is_noticed_within_200_seeds(name: str, server_dsn: str) -> None:
    assert "1 of 1 mutants" in _simulate(server_dsn, f"--mutants={name}", f"--seeds={_MISSED_WITHIN}")
