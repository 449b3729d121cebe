"""Pauses while very short jobs run, one after the other: nothing that is paused starts after the answer."""

import asyncio
import time
from typing import Any, Literal, TypeAlias

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store import pauses, serialized
from asyncjobs.store.database import Connection, Link
from asyncjobs.testing import Held, History, Proxy, Recorder
from tests.support.eventually import eventually

Kind: TypeAlias = Literal["key", "type", "queue"]

KINDS: list[Kind] = ["key", "type", "queue"]
_NAMES = {"key": "k", "type": "blip", "queue": "default"}
_BATCH = 200
_TOKENS = "SELECT claim_token FROM asyncjobs.jobs WHERE claim_token IS NOT NULL ORDER BY started_at DESC NULLS LAST LIMIT 100"
_CLAIMED = "SELECT count(*) > 0 FROM asyncjobs.jobs WHERE status = 'processing'"

#: An end of a job is written at once, and committed a moment later.
SLOW_COMMITS = """
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON asyncjobs.jobs DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.status = 'completed') EXECUTE FUNCTION slow_commit();
ALTER FUNCTION asyncjobs.hold_key(text) SET lock_timeout = '10ms';
"""
SLOW_SECONDS = 0.06


class Line:
    """A runner that is never out of work, all of it behind each other, and an operator who pauses and resumes it."""

    def __init__(self, dsn: str, kind: Kind, *, watch_seconds: float = 0.005) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=1 if kind != "key" else 4)], poll_interval=1.0)
        self.kind: Kind = kind
        self.watch_seconds = watch_seconds
        self.blip = self.app.job("blip")(self._blip)
        self.made = self.ran = 0
        self.claimed: list[int] = []
        self.moved = asyncio.Event()

    async def _blip(self) -> None:
        self.ran += 1
        self.moved.set()

    async def pause(self) -> Held:
        """Pause while it runs, watch for a moment, resume."""
        if self.made - self.ran < _BATCH // 2:
            options: dict[str, Any] = {"serialization_key": "k"} if self.kind == "key" else {}
            await self.app.enqueue_many([self.blip.using(**options).new() for _ in range(_BATCH)])
            self.made += _BATCH
        self.moved.clear()
        await asyncio.wait_for(self.moved.wait(), 10)
        await self.app.admin.pause(**{self.kind: _NAMES[self.kind]})
        answered_at = time.monotonic()
        while time.monotonic() < answered_at + self.watch_seconds:
            await self.app.admin.pauses()
        resumed_at = time.monotonic()
        await self.app.admin.resume(**{self.kind: _NAMES[self.kind]})
        return Held(self.kind, _NAMES[self.kind], answered_at, self.claimed, resumed_at)


def _note_claims(line: Line, patch: pytest.MonkeyPatch) -> None:
    """What is claimed at the last moment of the verb: the answer to such a claim may come after the verb's."""
    hold_back, wait_for_claims = serialized.hold_back, pauses.wait_for_claims

    async def held_back(link: Link, key: str) -> None:
        connection = await link.connection()
        async with connection.transaction():
            await hold_back(link, key)
            line.claimed = [row["claim_token"] for row in await connection.fetch(_TOKENS)]

    async def waited_for_claims(link: Link) -> None:
        await wait_for_claims(link)
        line.claimed = [row["claim_token"] for row in await (await link.connection()).fetch(_TOKENS)]

    patch.setattr(serialized, "hold_back", held_back)
    patch.setattr(pauses, "wait_for_claims", waited_for_claims)


async def _pauses(line: Line, recorder: Recorder, rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _note_claims(line, patch)
        await _play(line, recorder, rounds)


async def _play(line: Line, recorder: Recorder, rounds: int) -> None:
    async with line.app.runner():
        held = [await line.pause() for _ in range(rounds)]
        await line.app.admin.cancel_all(type="blip")
    assert History(attempts=recorder.attempts(), pauses=held).violations() == []
    assert line.ran >= rounds


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_starts_after_the_answer_to_a_pause(
    dsn: str, connection: Connection, recorder: Recorder, kind: Kind
) -> None:
    await _pauses(Line(dsn, kind), recorder, 20)


async def test_nothing_starts_after_the_answer_to_a_pause_also_when_commits_are_slow(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    await connection.execute(SLOW_COMMITS)
    await _pauses(Line(dsn, "key", watch_seconds=SLOW_SECONDS), recorder, 5)


@pytest.mark.proof
@pytest.mark.parametrize("commits", ["quick", "slow"])
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_starts_after_the_answer_to_a_thousand_pauses(
    dsn: str, connection: Connection, recorder: Recorder, kind: Kind, commits: str
) -> None:
    if commits == "slow":
        await connection.execute(SLOW_COMMITS)
    await _pauses(Line(dsn, kind, watch_seconds=SLOW_SECONDS if commits == "slow" else 0.005), recorder, 1000)


@pytest.mark.direct("answers are held up between the runner and its server")
async def test_what_was_claimed_before_a_pause_may_be_called_after_its_answer_and_nothing_is_after_a_drain(
    dsn: str, recorder: Recorder, connection: Connection
) -> None:
    """The runner hears of its claim when the operator has long had his answer."""
    starts: list[float] = []

    async def blip() -> None:
        starts.append(time.monotonic())

    async with Proxy(dsn) as proxy:
        there, operator = AsyncJobs(proxy.dsn, poll_interval=1.0), AsyncJobs(dsn)
        there.job("blip")(blip)
        job = operator.job("blip")(blip)
        async with there.runner(), operator:
            for verb in (operator.admin.pause, operator.admin.drain):
                starts.clear()
                proxy.delay(0.3, "finish")
                await operator.enqueue_many([job.using(serialization_key="k").new() for _ in range(3)])
                await eventually(lambda: connection.fetchval(_CLAIMED), description="one is claimed", interval=0.005)
                held = await paused_by(verb, connection)
                proxy.heal()
                await asyncio.sleep(0.5)
                late = [at for at in starts if at > held.answered_at]
                assert len(late) == (1 if verb == operator.admin.pause else 0)
                assert History(attempts=recorder.attempts(), pauses=[held]).violations() == []
                await operator.admin.resume(key="k")
                await eventually(lambda: len(starts) == 3, description="all have run")


async def paused_by(verb: Any, connection: Connection) -> Held:
    await verb(key="k")
    answered_at = time.monotonic()
    claimed = [row["claim_token"] for row in await connection.fetch(_TOKENS)]
    return Held("key", "k", answered_at, claimed)
