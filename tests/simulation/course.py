"""What a seed's world is like: every seed draws a few of the faults and a few of the features, so that each of them meets the
others often, undisturbed by the rest; and some worlds are calm, where every job has to start in time.

In some worlds nothing fails and all quarrel: enqueues that replace, operators and runners want one key at once, and most calls
wait for others in their middle. In others nothing is well-behaved: parts of runners are cancelled, programs call `sys.exit`, and
handlers, hooks, duties and sinks leak cancellations and exits.
"""

from random import Random
from typing import Any, Final

import msgspec

#: What befalls processes and the network of their own accord.
FAULTS: Final = ("kill", "freeze", "stall", "stop", "reset", "silent", "down", "clock")
_MORE_FAULTS: Final = ("part",)
#: What befalls a call at the worst of moments.
STRIKES: Final = ("freeze", "freeze at the answer", "lose the answer", "lose the request", "kill", "hold", "stall")
#: What clients do.
WAYS: Final = ("plain", "keyed", "delayed", "many", "here", "dedup", "cancel", "halt", "pause", "retry")
_CALM_WAYS: Final = ("plain", "keyed", "delayed", "many", "here", "dedup")
#: What they do besides.
_MORE_WAYS: Final = ("joined", "replace", "end", "requeue")
_LATEST_WAYS: Final = ("expiring", "expiring", "starting")
_PLANS: Final = (("fail", "ok"), ("fail",), ("die",), ("snooze",), ("fail", "snooze"), ("complete",))
_UNRULY: Final = ("cancel", "cancel", "exit")
_UNRULY_PLANS: Final = (("leak", "ok"), ("exit", "ok"), ("forget", "complete"), ("complete",), ("ok",))
_QUARRELS: Final = (
    "keyed", "press", "press", "swap", "swap", "replace", "pause", "cancel", "sweep", "retry", "end", "requeue", "revive", "many",
)  # fmt: skip


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn. Odds are of each call, or notification; seconds are virtual ones."""

    runners: int
    clients: int = 1
    seconds: float  # that the faults last
    jobs: int
    faults: tuple[str, ...]
    fault_every: float
    strikes: tuple[str, ...]
    strike_odds: float
    freezes: tuple[float, ...]
    break_odds: float
    slow_odds: float
    late_odds: float
    gate_odds: float
    ways: tuple[str, ...]
    plans: tuple[tuple[str, ...], ...]
    keys: str
    durations: tuple[float, ...]
    concurrency: int
    has_schedule: bool
    settings: dict[str, Any]
    fragile: tuple[str, ...] = ()  # roles of connections that break where nothing else does
    late_answers: tuple[str, ...] = ()  # roles whose answers are late where nothing fails
    prefetch: int = 0
    quarrels: bool = False  # nothing fails, and all want the same
    is_unruly: bool = False  # what is the application's leaks cancellations and exits

    @property
    def is_calm(self) -> bool:
        """Whether nothing fails, and nobody holds anything up."""
        return not self.faults and not self.strikes and not self.quarrels


def draw(seed: int) -> Course:
    """The course of this seed."""
    random = Random(f"course {seed}")
    course = _calm(random) if random.random() < 0.2 else _stormy(random)
    course = msgspec.structs.replace(course, clients=random.choice([1, 2, 2]))
    course = _calm_in_its_way(random, course) if course.is_calm else _stormier(random, course)
    course = _of_late(Random(f"late {seed}"), course)
    return _latest(Random(f"expiry {seed}"), course)


def _of_late(random: Random, course: Course) -> Course:
    """What was added when courses were drawn already: most of them stay as they were."""
    chance = random.random()
    if course.is_calm:
        return course
    if chance < 0.2:
        return _quarrelsome(random, course)
    if chance < 0.4:
        return _unruly(random, course)
    if 0.465 <= chance < 0.485:
        return _cut_off(random, course)
    return msgspec.structs.replace(course, prefetch=random.choice([0, 0, 3]))


def _latest(random: Random, course: Course) -> Course:
    """Jobs that expire, and dedup keys that are held until the start: as above, most courses stay as they were."""
    if course.is_calm or random.random() > 0.3:
        return course
    return msgspec.structs.replace(
        course, ways=(*course.ways, *_some(random, _LATEST_WAYS)), prefetch=random.choice([course.prefetch, 3]),
        durations=(*course.durations, 1.0),
    )  # fmt: skip


def _quarrelsome(random: Random, course: Course) -> Course:
    return msgspec.structs.replace(
        course, quarrels=True, runners=2, clients=3, seconds=8.0, jobs=40, faults=(), strikes=(), strike_odds=0.0, break_odds=0.0,
        slow_odds=0.0, late_odds=0.0, gate_odds=random.choice([0.3, 0.6]), ways=_some(random, _QUARRELS),
        plans=(("ok",), ("ok",), ("die",)), keys=random.choice(["a", "ab"]), durations=(0.0, 0.0, 0.01), concurrency=3,
        has_schedule=False, prefetch=random.choice([0, 3]),
    )  # fmt: skip


def _cut_off(random: Random, course: Course) -> Course:
    """Runners are cut off in the middle of attempts that last longer than it takes to declare their runner dead."""
    return msgspec.structs.replace(
        course, runners=2, seconds=24.0, jobs=8, faults=("part",), fault_every=6.0, strikes=(), strike_odds=0.0, break_odds=0.0,
        plans=(("ok",),), durations=(25.0, 25.0, 0.3), concurrency=3, prefetch=random.choice([0, 3]),
    )  # fmt: skip


def _unruly(random: Random, course: Course) -> Course:
    return msgspec.structs.replace(
        course, is_unruly=True, faults=(*course.faults[:2], *_UNRULY), fault_every=1.5, plans=(*course.plans, *_UNRULY_PLANS),
        prefetch=random.choice([0, 3]),
    )  # fmt: skip


def _calm(random: Random) -> Course:
    return Course(
        runners=random.choice([1, 2, 3]), seconds=5.0, jobs=24, faults=(), fault_every=1.0, strikes=(), strike_odds=0.0,
        freezes=(1.0,), break_odds=0.0, slow_odds=0.0, late_odds=0.0, gate_odds=random.choice([0.0, 0.3, 0.6]),
        ways=_some(random, _CALM_WAYS), plans=(("ok",), ("ok",), *_some(random, _PLANS)), keys=random.choice(["a", "ab", "abc"]),
        durations=random.choice([(0.0,), (0.0, 0.01, 0.3)]), concurrency=40, has_schedule=False,
        settings={"poll_interval": 60, "sweep_interval": 60, "promote_interval": 60, "listener_keepalive": 30},
    )  # fmt: skip


def _stormy(random: Random) -> Course:
    return Course(
        runners=random.choice([2, 2, 3]), seconds=random.choice([6.0, 10.0, 16.0]), jobs=random.choice([10, 15, 20]),
        faults=_some(random, FAULTS), fault_every=random.choice([1.5, 3.0, 6.0]),
        strikes=_some(random, STRIKES), strike_odds=random.choice([0.0, 0.01, 0.03]),
        freezes=random.choice([(1.0, 10.5), (11.0, 20.0), (1.0, 10.5, 20.0)]),
        break_odds=random.choice([0.0, 0.004, 0.015]), slow_odds=random.choice([0.0, 0.01, 0.03]),
        late_odds=random.choice([0.0, 0.05, 0.3]), gate_odds=random.choice([0.0, 0.0, 0.1, 0.4]),
        ways=_some(random, WAYS), plans=(("ok",), *_some(random, _PLANS)), keys=random.choice(["a", "ab", "abc"]),
        durations=random.choice([(0.0,), (0.0, 0.3, 1.0), (0.0, 0.01, 0.3, 3.0)]), concurrency=random.choice([1, 3, 3]),
        has_schedule=random.random() < 0.4,
        settings={
            "sweep_interval": random.choice([15, 60]), "listener_keepalive": random.choice([5, 20]),
            "promote_interval": random.choice([5, 15]),
        },
    )  # fmt: skip


def _calm_in_its_way(random: Random, course: Course) -> Course:
    """Nothing fails, but: the notifier's connection breaks, or answers are late, or everybody wants one key at once."""
    how = random.choice(["", "fragile", "late", "race", "race"])
    ways = (*course.ways, *(("joined",) if random.random() < 0.3 else ()))
    if how == "fragile":
        # So few jobs that nobody is woken by the next one's notification.
        return msgspec.structs.replace(course, ways=ways, fragile=("notifier",), jobs=8, seconds=24.0)
    if how == "late":
        # Mostly one runner, and few jobs: what it overlooks is not found by another, or at the next job.
        return msgspec.structs.replace(
            course, ways=ways, late_answers=("finish", "duties"), gate_odds=0.0, jobs=12, seconds=24.0,
            runners=random.choice([1, 1, 2]),
        )  # fmt: skip
    if how == "race":
        return msgspec.structs.replace(
            course, ways=("keyed", "keyed", "many", "here", "joined"), keys="a", jobs=40, clients=2, gate_odds=0.6,
            durations=(0.0,), plans=(("ok",),), runners=random.choice([2, 3]),
        )  # fmt: skip
    return msgspec.structs.replace(course, ways=ways)


def _stormier(random: Random, course: Course) -> Course:
    """Operators' verbs; runners that are cut off; attempts that last longer than a runner that is silent has."""
    faults = (*course.faults, *(fault for fault in _MORE_FAULTS if random.random() < 0.3))
    is_long = random.random() < 0.25
    return msgspec.structs.replace(
        course, ways=(*course.ways, *(way for way in _MORE_WAYS if random.random() < 0.3)), faults=faults,
        durations=(0.3, 3.0, 12.0) if is_long else course.durations, jobs=10 if is_long else course.jobs,
        plans=(*course.plans, ("stubborn", "ok")) if random.random() < 0.25 else course.plans,
    )  # fmt: skip


def _some(random: Random, all: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each with a chance of one half, and at least one."""
    chosen = tuple(one for one in all if random.random() < 0.5)
    return chosen or (random.choice(all),)
