"""Which types a runner may claim while breakers are not closed: the sentences of `runtime/turnstile.py`."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.model.breaker import Policy
from asyncjobs.model.claim import Probe
from asyncjobs.runtime import turnstile as module
from asyncjobs.runtime.turnstile import Turnstile
from tests.support.claims import a_claimed

DEAD_LETTERS = ("dead_letter", "postcard")


class Breakers:
    """Breakers as a test wants them: what each lets through, None when it is closed."""

    def __init__(self) -> None:
        self.free: dict[str, int | None] = {"mail": None, "sms": None}
        self.probes = 1
        self.looked = 0
        self.changed: Callable[[str], None] | None = None

    def free_probes(self, service: str) -> int | None:
        return self.free[service]

    def policy(self, service: str) -> Policy:
        return Policy(service=service, probes=self.probes, open_seconds=60.0)

    def watch(self, watcher: Callable[[str], None], *, hears: Callable[[], bool]) -> Callable[[], None]:
        self.changed = watcher

        def forget() -> None:
            self.changed = None

        return forget

    async def wait_looked(self) -> None:
        self.looked += 1


class Runner:
    """A turnstile of a runner with five types, and its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.woken = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.breakers = Breakers()
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        guarded = {"dead_letter": "mail", "postcard": "mail", "text": "sms"}
        self.turnstile = Turnstile(
            cast("Any", self.breakers), ["plain", *DEAD_LETTERS, "text", "other"], guarded, cast("Any", self), later=self._later
        )

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def look_at_the_front(self) -> None:
        self.woken += 1

    def give_back_waiting(self, condition: Callable[[Any], bool]) -> None: ...

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [call for at, call in self.timers if at <= self.now]
        self.timers = [(at, call) for at, call in self.timers if at > self.now]
        for call in due:
            call()

    def found(self, *ids: int, type: str = "dead_letter", seconds: float = 0.0) -> None:
        """A call for the probes found these jobs, and one without a breaker."""
        jobs = [a_claimed(id=id, token=id, type=type) for id in ids]
        self.turnstile.claimed(self.turnstile.probes(), [a_claimed(id=99, type="plain"), *jobs], seconds)

    def ended(self, id: int, type: str = "dead_letter") -> None:
        self.turnstile.ended(a_claimed(id=id, token=id, type=type))


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(monkeypatch)


def test_types_of_closed_breakers_are_claimed_like_any_other(runner: Runner) -> None:
    assert sorted(runner.turnstile.types()) == ["dead_letter", "other", "plain", "postcard", "text"]
    assert runner.turnstile.probes() == []


def test_types_of_an_open_breaker_are_not_claimed_at_all(runner: Runner) -> None:
    runner.breakers.free["mail"] = 0
    assert sorted(runner.turnstile.types()) == ["other", "plain", "text"]
    assert runner.turnstile.probes() == []


def test_so_many_jobs_of_all_types_of_a_service_as_its_breaker_lets_through_are_probes(runner: Runner) -> None:
    runner.breakers.probes = 3
    runner.breakers.free["mail"] = 2
    assert sorted(runner.turnstile.types()) == ["other", "plain", "text"]
    assert runner.turnstile.probes() == [Probe(DEAD_LETTERS, 2)]


def test_a_probe_counts_until_its_attempt_ends(runner: Runner) -> None:
    runner.breakers.probes = 2
    runner.breakers.free["mail"] = 2
    runner.found(1, 2)
    assert runner.turnstile.probes() == [], "it has claimed them, though they have not asked the breaker yet"
    woken = runner.woken
    runner.ended(1)
    assert runner.woken == woken + 1, "the next may be looked for"
    assert runner.turnstile.probes() == [Probe(DEAD_LETTERS, 1)]
    runner.ended(1)
    runner.ended(7, type="plain")
    assert runner.woken == woken + 1, "that was no probe"


def test_a_probe_that_hangs_counts_for_as_long_as_one_may_take(runner: Runner) -> None:
    runner.breakers.free["mail"] = 1
    runner.found(1)
    runner.advance(59.9)
    assert runner.turnstile.probes() == []
    woken = runner.woken
    runner.advance(0.2)
    assert runner.woken > woken, "somebody looks then"
    assert runner.turnstile.probes() == [Probe(DEAD_LETTERS, 1)]


def test_a_probe_of_one_service_is_none_of_another(runner: Runner) -> None:
    runner.breakers.free |= {"mail": 1, "sms": 1}
    runner.found(1)
    assert runner.turnstile.probes() == [], "of texts there were none: they are not looked for again at once"
    runner.advance(0.2)
    assert runner.turnstile.probes() == [Probe(("text",), 1)]


@pytest.mark.parametrize(("seconds", "hold"), [(0.0, 0.1), (0.004, 0.1), (0.5, 10.0)])
def test_a_look_that_found_too_few_is_not_repeated_before_twenty_times_its_cost(
    runner: Runner, seconds: float, hold: float
) -> None:
    runner.breakers.free["mail"] = 1
    runner.found(seconds=seconds)
    runner.advance(hold * 0.99)
    assert runner.turnstile.probes() == []
    assert runner.woken == 0
    runner.advance(hold * 0.02)
    assert runner.woken == 1, "whoever wanted one meanwhile looks then"
    assert runner.turnstile.probes() == [Probe(DEAD_LETTERS, 1)]


def test_nobody_is_woken_for_a_look_that_nobody_missed(runner: Runner) -> None:
    runner.breakers.free["mail"] = 1
    runner.found()
    runner.advance(1.0)
    assert runner.woken == 0


def test_whenever_a_breaker_lets_more_through_the_coordinators_look_at_the_front(runner: Runner) -> None:
    runner.breakers.free["mail"] = 1
    runner.found()
    runner.turnstile._changed("mail")
    assert runner.woken == 1
    assert runner.turnstile.probes() == [Probe(DEAD_LETTERS, 1)], "at once, whatever the last look cost"
    runner.breakers.free["mail"] = 0
    runner.turnstile._changed("mail")
    runner.turnstile._changed("a service of another program")
    assert runner.woken == 1


async def test_it_follows_the_breakers_from_open_to_close(runner: Runner) -> None:
    await runner.turnstile.open()
    assert runner.breakers.looked == 1, "it is known how they are"
    assert runner.breakers.changed == runner.turnstile._changed
    runner.turnstile.close()
    runner.turnstile.close()
    assert runner.breakers.changed is None


async def test_without_a_type_that_has_a_breaker_nothing_is_waited_for(runner: Runner) -> None:
    turnstile = Turnstile(cast("Any", runner.breakers), ["plain"], {}, cast("Any", runner), later=runner._later)
    await turnstile.open()
    assert (turnstile.types(), runner.breakers.looked) == (["plain"], 0)
