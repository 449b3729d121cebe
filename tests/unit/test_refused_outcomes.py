"""What is written in place of an outcome that the database refuses: one rule for all who write outcomes."""

import json
from typing import Any

import asyncpg
import msgspec
import pytest

from asyncjobs.model.claim import Ack, Finished, progress_text, storable
from asyncjobs.model.outcome import COMPLETED, Outcome
from asyncjobs.runtime.remains import Remains
from asyncjobs.store import jobs
from asyncjobs.telemetry.events import Events

NOTED = Ack(1, 2, COMPLETED, "default", progress_text(0.5, "Ω"))


def test_note_of_progress_is_tried_in_ascii_before_its_outcome_is_given_up() -> None:
    told = storable(NOTED)
    assert told.outcome is COMPLETED
    assert (told.progress or "").isascii()
    assert json.loads(told.progress or "")["note"] == r"\u03a9"
    failed = storable(told)
    assert (failed.outcome.kind, failed.progress, failed.key_queue) == ("dead", told.progress, "default")


@pytest.mark.parametrize(("kind", "becomes"), [("completed", "dead"), ("snooze", "dead"), ("retry", "retry")])
def test_outcome_becomes_a_failed_attempt_that_says_so(kind: Any, becomes: str) -> None:
    ack = storable(Ack(1, 2, Outcome(kind=kind, message="Ω is why", result='"\\u0000"')))
    assert (ack.outcome.kind, ack.outcome.result) == (becomes, None)
    assert (ack.outcome.message or "").startswith("the database refused to store")
    assert (ack.outcome.message or "").isascii()


def test_nothing_is_left_to_try_after_that() -> None:
    last = storable(storable(NOTED))
    assert storable(last) == last


def test_message_of_the_applications_that_sounds_like_it_is_replaced() -> None:
    ack = Ack(1, 2, Outcome(kind="dead", message="the database refused to store the outcome of this attempt: Ω"))
    assert storable(ack) != ack


async def test_note_of_an_attempt_that_outlives_its_runner_does_not_end_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Ack] = []

    async def ack_alone(_link: Any, _runner_id: int, ack: Ack, *, max_errors: int) -> Finished:
        if not (ack.progress or "").isascii():
            raise asyncpg.UntranslatableCharacterError("not in LATIN1")
        written.append(ack)
        return Finished([], [], ["default"], gone=False)

    monkeypatch.setattr(jobs, "ack_alone", ack_alone)
    nobody: Any = None
    remains = Remains([], runner_id=1, max_errors=10, wake=nobody, is_confirmed=nobody)
    assert await remains._write(nobody, NOTED) == ["default"]
    assert [ack.outcome for ack in written] == [COMPLETED]


async def test_what_the_database_refuses_to_the_last_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Ack] = []

    async def ack_alone(_link: Any, _runner_id: int, ack: Ack, *, max_errors: int) -> Finished:
        tries.append(ack)
        raise asyncpg.UntranslatableCharacterError("never")

    monkeypatch.setattr(jobs, "ack_alone", ack_alone)
    nobody: Any = None
    remains = Remains([], runner_id=1, max_errors=10, wake=nobody, is_confirmed=nobody)
    with pytest.raises(asyncpg.UntranslatableCharacterError):
        await remains._write(nobody, NOTED)
    assert [ack.outcome.kind for ack in tries] == ["completed", "completed", "dead"]
    assert msgspec.structs.asdict(tries[-1])["progress"].isascii()


async def test_outcome_that_is_refused_after_the_stop_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    async def ack_alone(_link: Any, _runner_id: int, ack: Ack, *, max_errors: int) -> Finished:
        if ack.id == 1:
            raise asyncpg.RaiseError("not this one")
        written.append(ack.id)
        return Finished([], [], [], gone=False)

    monkeypatch.setattr(jobs, "ack_alone", ack_alone)
    anything: Any = object()
    remains = Remains([], runner_id=1, max_errors=10, wake=lambda: None, is_confirmed=lambda: True)
    remains.bind(anything, Events())
    remains._acks = {number: Ack(number, number, COMPLETED) for number in (1, 2)}
    with pytest.raises(asyncpg.RaiseError):
        await remains.pass_()
    assert written == [2]
    assert [*remains._acks] == [1]
