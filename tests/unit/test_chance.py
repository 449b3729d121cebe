"""The library's random numbers are its own."""

import os
import random

from asyncjobs.model.chance import CHANCE
from asyncjobs.runtime.service import Service
from asyncjobs.store.jobs import fresh_token
from asyncjobs.telemetry.events import Events


class Idle(Service):
    name = "idle"


def drawn() -> tuple[int, float]:
    return fresh_token(), Idle(events=Events(), interval_seconds=1)._chance()


def test_a_program_that_seeds_pythons_generator_seeds_neither_tokens_nor_waits() -> None:
    before = random.getstate()
    try:
        random.seed(1)
        first, after = drawn(), random.getstate()
        random.seed(1)
        assert random.getstate() == after, "nothing was drawn from it"
        assert drawn() != first
    finally:
        random.setstate(before)


def test_a_fork_draws_others() -> None:
    state = CHANCE.getstate()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os.write(writer, str(CHANCE.getrandbits(64)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int(os.read(reader, 100))
    os.close(reader)
    os.close(writer)
    CHANCE.setstate(state)
    assert theirs != CHANCE.getrandbits(64)
