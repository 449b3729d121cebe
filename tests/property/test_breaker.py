"""A breaker's rules in the database are those of the model, whatever processes with different policies do to it, in any order."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncjobs.model.breaker import (
    Asked,
    Circuit,
    Event,
    Failed,
    GivenBack,
    Opened,
    Policy,
    Reset,
    Succeeded,
    decide,
    free_probes,
    lets_through,
)
from asyncjobs.store import breakers as store
from asyncjobs.store.database import Database, Link
from asyncjobs.testing import MovableClock

#: Seconds against which those do not count that a test takes on a busy machine.
LONG = 1000.0

#: Three programs that declare the same breaker differently.
POLICIES = [
    Policy(service="mail", failure_threshold=3, success_threshold=1, probes=1, open_seconds=2.5 * LONG),
    Policy(service="mail", failure_threshold=2, success_threshold=2, probes=2, open_seconds=1.5 * LONG),
    Policy(service="mail", failure_threshold=5, success_threshold=3, probes=1, open_seconds=4.5 * LONG),
]

#: What a process does: report with no probe's token (None), or with that of one of the last that it was given.
STEPS = st.tuples(
    st.integers(0, len(POLICIES) - 1),
    st.one_of(
        st.tuples(st.just("fail"), st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, 0.25, 1.25, 3.25])),
        st.tuples(st.just("fail"), st.sampled_from([None, 0, 1, 2]), st.just(None)),
        st.tuples(st.just("succeed"), st.sampled_from([None, 0, 1, 2]), st.just(None)),
        st.tuples(st.just("give back"), st.sampled_from([0, 1, 2]), st.just(None)),
        st.tuples(st.just("ask"), st.just(None), st.just(None)),
        st.tuples(st.just("ask"), st.just(None), st.just(None)),
        st.tuples(st.just("wait"), st.just(None), st.integers(1, 5)),
        st.tuples(st.sampled_from(["reset", "open"]), st.just(None), st.sampled_from([None, 1.5, 3.5])),
    ),
)


class Both:
    """The database and the model, side by side."""

    def __init__(self, runner: asyncio.Runner, link: Link, clock: MovableClock, connection: Any) -> None:
        self.runner, self.link, self.clock, self.connection = runner, link, clock, connection
        self.begin()

    def begin(self) -> None:
        self.runner.run(self.connection.execute("TRUNCATE asyncjobs.circuit_breakers"))
        self.now = 0.0
        self.circuit = Circuit()
        self.tokens: list[int] = []
        self.numbers = 0

    def do(self, process: int, what: str, number: int | None, value: float | None) -> None:
        if what == "wait":
            assert value is not None
            self.now += value * LONG
            self.runner.run(self.clock.advance(value * LONG))
            return
        event = self.event(what, number, value)
        if event is None:
            return
        policy = POLICIES[process]
        formerly, free = self.circuit.state, free_probes(self.circuit, policy, self.now)
        self.circuit = decide(self.circuit, event, policy, self.now)
        happened = self.runner.run(store.happen(self.link, event, policy, reason="an operator"))
        assert happened.formerly == formerly
        self.check(happened.seen.circuit)
        if isinstance(event, Asked):
            assert lets_through(self.circuit, event.token) == (free is None or free > 0)
            self.tokens.append(event.token)

    def event(self, what: str, number: int | None, value: float | None) -> Event | None:
        self.numbers += 1
        token = None if number is None or number >= len(self.tokens) else self.tokens[-1 - number]
        seconds = None if value is None else value * LONG
        match what:
            case "fail":
                return Failed(token, seconds)
            case "succeed":
                return Succeeded(token)
            case "give back":
                return None if token is None else GivenBack(token)
            case "reset":
                return Reset()
            case "open":
                return Opened(seconds)
            case _:
                return Asked(self.numbers)

    def check(self, found: Circuit) -> None:
        mine = self.circuit
        assert (found.state, found.failure_count, found.success_count) == (mine.state, mine.failure_count, mine.success_count)
        assert [token for token, _ in found.probes] == [token for token, _ in mine.probes]
        assert is_close(found.half_opens_at, mine.half_opens_at, self.now)
        assert is_close(found.last_failure_at, mine.last_failure_at, self.now)
        for (_, theirs), (_, ours) in zip(found.probes, mine.probes, strict=True):
            assert is_close(theirs, ours, self.now)


def is_close(seconds: float | None, at: float | None, now: float) -> bool:
    if seconds is None or at is None:
        return seconds is at
    return abs(seconds - (at - now)) < LONG / 10


@pytest.fixture
def both(database: Database) -> Iterator[Both]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database.dsn))
        link = database.link("test")
        clock = runner.run(MovableClock(database).__aenter__())
        yield Both(runner, link, clock, connection)
        runner.run(clock.__aexit__())
        runner.run(link.close())
        runner.run(connection.close())


def test_the_database_does_what_the_model_says(both: Both) -> None:
    @settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(STEPS, min_size=8, max_size=40))
    def live(steps: list[tuple[int, tuple[str, int | None, float | None]]]) -> None:
        both.begin()
        for process, (what, number, value) in steps:
            both.do(process, what, number, value)

    live()


@given(st.lists(STEPS, max_size=60))
def test_no_more_probes_than_declared_start_in_a_window_and_nothing_wedges_it(steps: list[Any]) -> None:
    policy = POLICIES[1]
    circuit, now, granted = Circuit(), 0.0, list[float]()
    for number, (_, (what, chosen, value)) in enumerate(steps):
        tokens = [token for token, _ in circuit.probes]
        token = tokens[-1 - chosen] if chosen is not None and chosen < len(tokens) else None
        match what:
            case "wait":
                now += value * LONG
            case "ask":
                before = circuit.state
                circuit = decide(circuit, Asked(number), policy, now)
                if circuit.state == "half-open" and lets_through(circuit, number):
                    granted = [at for at in granted if at + policy.open_seconds > now] if before == "half-open" else []
                    granted.append(now)
            case "fail":
                circuit = decide(circuit, Failed(token), policy, now)
            case "succeed" | "give back" if token is not None:
                circuit = decide(circuit, Succeeded(token) if what == "succeed" else GivenBack(token), policy, now)
                granted = granted[1:]
            case _:
                pass
        assert len(granted) <= policy.probes
    # However it got there: a while later, so many good probes close it.
    now += 2 * policy.open_seconds
    for number in range(1000, 1000 + policy.success_threshold):
        circuit = decide(circuit, Asked(number), policy, now)
        assert lets_through(circuit, number)
        circuit = decide(circuit, Succeeded(number), policy, now)
    assert circuit.state == "closed"
