"""What a seed's world is like: every seed draws a few of the faults and a few of the features, so that each of them meets the
others often, undisturbed by the rest; and some worlds are calm, where every job has to start in time.

In some worlds nothing fails and all quarrel: enqueues that replace, operators and runners want one key at once, and most calls
wait for others in their middle. In others nothing is well-behaved: parts of runners are cancelled, programs call `sys.exit`, and
handlers, hooks, duties and sinks leak cancellations and exits.

What takes several coincidences at once has worlds of its own, `SCENES`, where each of these is the rule.
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
    last_fault: float = float("inf")  # when the last of them is at the latest
    strikes: tuple[str, ...]
    strike_odds: float
    freezes: tuple[float, ...]
    break_odds: float
    slow_odds: float
    late_odds: float
    gate_odds: float
    gates_in: tuple[str, ...] = ()  # functions at whose gates alone calls wait, if any is named
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
    each: tuple[int, ...] = ()  # what programs say of how many of a limit key run at once; nothing: there is no limit
    total: int | None = None
    has_rate: bool = False
    struck: tuple[str, ...] = ()  # calls of these names alone are struck, if any is named
    scene: str = ""  # which of the rarer coincidences this world is about

    @property
    def takes_no_claims(self) -> bool:
        """Whether no runner is dead, or seems to be, and nobody but its attempt ends a job: claims stay whose they are."""
        return self.scene == "late give-backs"

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
    course = _latest(Random(f"expiry {seed}"), course)
    course = _limited(Random(f"limits {seed}"), course)
    course = _set(Random(f"scene {seed}"), course)
    course = _running(Random(f"runs {seed}"), course)
    return _flowing(Random(f"flows {seed}"), course)


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
        return msgspec.structs.replace(course, scene="cut off", prefetch=random.choice([0, 3]), **SCENES["cut off"])
    return msgspec.structs.replace(course, prefetch=random.choice([0, 0, 3]))


def _latest(random: Random, course: Course) -> Course:
    """Jobs that expire, and dedup keys that are held until the start: as above, most courses stay as they were."""
    if course.is_calm or random.random() > 0.3:
        return course
    return msgspec.structs.replace(
        course, ways=(*course.ways, *_some(random, _LATEST_WAYS)), prefetch=random.choice([course.prefetch, 3]),
        durations=(*course.durations, 1.0),
    )  # fmt: skip


def _running(random: Random, course: Course) -> Course:
    """Runs of keys: as above, most courses stay as they were."""
    if course.scene or course.is_unruly or random.random() > 0.25:
        return course
    scene = random.choice(_RUNS_OF[course.is_calm, course.quarrels])
    return msgspec.structs.replace(course, scene=scene, **SCENES[scene])


def _flowing(random: Random, course: Course) -> Course:
    """Workflows: as above, most courses stay as they were."""
    if course.scene or random.random() > 0.3:
        return course
    scene = _FLOWS_OF[course.is_calm, course.quarrels]
    if not course.is_unruly and random.random() < (0.8 if course.is_calm or course.quarrels else 0.3):
        return msgspec.structs.replace(course, scene=scene, **SCENES[scene])
    verbs = () if course.is_calm else ("steered", "steered")
    plans = course.plans if course.is_calm else (*course.plans, ("die",), ("spawn",), ("spawn and fail", "spawn"))
    return msgspec.structs.replace(course, ways=(*course.ways, "flow", "flow", *verbs), plans=plans, jobs=course.jobs + 16)


def _limited(random: Random, course: Course) -> Course:
    """Jobs of limits, which programs may declare differently."""
    if course.is_calm or course.scene or random.random() > 0.25:
        return course
    return msgspec.structs.replace(
        course, ways=(*course.ways, "limited", "limited", "limited_here"), each=random.choice([(1,), (2,), (1, 2)]),
        total=random.choice([None, None, 2]), has_rate=random.random() < 0.3 and not course.quarrels,
        plans=(*course.plans, *((("throttle",),) if random.random() < 0.5 else ())), durations=(*course.durations, 0.3),
    )  # fmt: skip


def _quarrelsome(random: Random, course: Course) -> Course:
    return msgspec.structs.replace(
        course, quarrels=True, runners=2, clients=3, seconds=8.0, jobs=40, faults=(), strikes=(), strike_odds=0.0, break_odds=0.0,
        slow_odds=0.0, late_odds=0.0, gate_odds=random.choice([0.3, 0.6]), ways=_some(random, _QUARRELS),
        plans=(("ok",), ("ok",), ("die",)), keys=random.choice(["a", "ab"]), durations=(0.0, 0.0, 0.01), concurrency=3,
        has_schedule=False, prefetch=random.choice([0, 3]),
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


def _set(random: Random, course: Course) -> Course:
    """Some worlds are about one coincidence."""
    odds, scenes = _SCENES_OF[course.is_calm, course.quarrels]
    if course.is_unruly or course.scene or random.random() >= odds:
        return course
    scene = random.choice(scenes)
    return msgspec.structs.replace(course, scene=scene, **SCENES[scene])


_UNDISTURBED: Final[dict[str, Any]] = {
    "faults": (), "strikes": (), "strike_odds": 0.0, "break_odds": 0.0, "slow_odds": 0.0, "late_odds": 0.0, "gate_odds": 0.0,
    "ways": ("plain", "keyed"), "plans": (("ok",),), "keys": "ab", "has_schedule": False, "prefetch": 0,
}  # fmt: skip
#: What is the rule in each of them.
SCENES: Final[dict[str, dict[str, Any]]] = {
    # Runners are cut off in the middle of attempts that last longer than it takes to declare their runner dead.
    "cut off": {
        "runners": 2, "seconds": 24.0, "jobs": 8, "faults": ("part",), "fault_every": 6.0, "strikes": (), "strike_odds": 0.0,
        "break_odds": 0.0, "plans": (("ok",),), "durations": (25.0, 25.0, 0.3), "concurrency": 3,
    },
    # Outcomes arrive when others have the jobs, and run them: their process was frozen for long. Nobody else is at that time.
    "late outcomes": {
        **_UNDISTURBED, "runners": 3, "seconds": 60.0, "jobs": 24, "strikes": ("freeze meanwhile",), "strike_odds": 0.1,
        "struck": ("finish_one",), "freezes": (20.0,), "durations": (4.0, 8.0), "concurrency": 3,
    },
    # Claims arrive when their runner has been declared dead, where others leave something to be claimed.
    "late claims": {
        **_UNDISTURBED, "runners": 2, "seconds": 50.0, "jobs": 24, "strikes": ("freeze meanwhile",), "strike_odds": 0.04,
        "struck": ("finish",), "freezes": (20.0,), "durations": (4.0, 8.0), "concurrency": 1,
    },
    # What gives back claims that were not answered is carried out when its runner has claimed again.
    "late give-backs": {
        **_UNDISTURBED, "runners": 2, "seconds": 45.0, "jobs": 40, "strikes": ("hold for long",), "strike_odds": 0.08,
        "struck": ("give_back",), "durations": (3.0, 6.0), "concurrency": 3,
    },
    # Processes sleep for longer than their leases last, and not so long that they are dead.
    "naps": {
        **_UNDISTURBED, "runners": 2, "seconds": 60.0, "jobs": 6, "faults": ("freeze",), "fault_every": 12.0,
        "freezes": (10.0, 11.0), "durations": (0.0,), "concurrency": 3,
    },
    # Processes are frozen with jobs that wait there for a slot.
    "frozen stock": {
        **_UNDISTURBED, "runners": 3, "seconds": 60.0, "jobs": 40, "faults": ("freeze",), "fault_every": 10.0,
        "freezes": (20.0,), "durations": (1.0, 3.0), "concurrency": 1, "prefetch": 3, "ways": ("plain",),
    },
    # Runners are killed, and who rescues is cut off when they have been declared dead and their jobs are still theirs.
    "lost rescues": {
        **_UNDISTURBED, "runners": 3, "seconds": 60.0, "jobs": 24, "faults": ("kill",), "fault_every": 14.0,
        "strikes": ("lose the request",), "strike_odds": 0.1, "struck": ("rescue",), "durations": (2.0, 6.0),
        "concurrency": 3, "last_fault": 40.0,
    },
    # Runners stop while attempts go on that do not heed it, and nobody dies.
    "stops": {
        **_UNDISTURBED, "runners": 2, "seconds": 24.0, "jobs": 12, "faults": ("stop",), "fault_every": 6.0,
        "plans": (("stubborn", "ok"), ("ok",)), "durations": (1.0, 4.0), "concurrency": 3,
    },
    # Somebody's hand deletes jobs at the head of their keys.
    "hands": {
        **_UNDISTURBED, "runners": 2, "seconds": 16.0, "jobs": 24, "faults": ("hand",), "fault_every": 1.5,
        "ways": ("keyed",), "plans": (("ok",), ("fail", "ok")), "durations": (0.3, 1.0), "concurrency": 1,
    },
    # Lines that are longer than what is claimed ahead, where processes die, freeze and lose answers in the middle of runs.
    "runs": {
        "runners": 2, "seconds": 24.0, "jobs": 70, "faults": ("kill", "freeze", "stop", "reset"), "fault_every": 5.0,
        "strikes": ("freeze meanwhile", "lose the answer", "lose the request", "kill", "hold"), "strike_odds": 0.03,
        "freezes": (1.0, 10.5, 20.0), "break_odds": 0.004, "slow_odds": 0.01, "late_odds": 0.05, "gate_odds": 0.1,
        "ways": ("line", "line", "plain", "cancel", "end", "pause", "retry"), "keys": "ab", "has_schedule": False,
        "plans": (*5 * (("ok",),), ("fail", "ok"), ("die",), ("complete",), ("snooze",), ("forget", "ok")),
        "durations": (0.0, 0.0, 0.01, 0.3), "concurrency": 2, "prefetch": 12,
    },
    # A process is frozen with outcomes of a run on their way, until others have its jobs.
    "late runs": {
        **_UNDISTURBED, "runners": 3, "seconds": 60.0, "jobs": 60, "strikes": ("freeze meanwhile",), "strike_odds": 0.2,
        "struck": ("finish", "finish_completed"), "freezes": (20.0,), "durations": (0.0, 0.3), "concurrency": 1, "prefetch": 12,
        "ways": ("line",), "keys": "ab", "plans": (("ok",), ("ok",), ("ok",), ("fail", "ok")),
    },
    # Where nothing fails: long lines.
    "long lines": {
        "ways": ("line", "line", "plain", "delayed"), "keys": "ab", "prefetch": 12, "jobs": 60, "seconds": 16.0, "runners": 2,
        "plans": (("ok",), ("ok",), ("ok",), ("complete",), ("fail", "ok")), "durations": (0.0, 0.0, 0.01), "concurrency": 3,
        "fragile": (), "late_answers": (),
    },
    # Verbs want jobs that follow, in the middle of calls that claim them, end them and give them back.
    "pressed runs": {
        "ways": ("line", "line", "cancel", "end", "pause", "sweep"), "keys": "ab", "clients": 2, "seconds": 16.0, "jobs": 70,
        "gate_odds": 0.6, "gates_in": ("claim_followers", "keep_order", "wait_again", "dispatch_keys", "let_keys_go", "ack"),
        "prefetch": 12, "plans": (("ok",), ("ok",), ("ok",), ("fail", "ok"), ("die",)), "durations": (0.0, 0.0, 0.01),
        "concurrency": 2, "runners": 2,
    },
    # Where nothing fails: operators hold jobs locked that wait to be claimed, and change nothing.
    "touched": {"ways": ("touch",), "gate_odds": 0.6, "jobs": 10, "seconds": 24.0, "clients": 1, "runners": 2},
    # Where nothing fails: a job is told to be due soon while those before it are being made pending.
    "chased": {
        "ways": ("chase",), "gate_odds": 0.0, "late_answers": ("duties",), "jobs": 20, "seconds": 30.0, "clients": 1,
        "runners": 1, "fragile": (), "plans": (("ok",),),
    },
    # Key by key, backlogs of jobs that end at once, and a pause in their middle, which waits when it has the row of the head.
    "pressed": {
        "ways": ("press",), "keys": "ab", "clients": 1, "seconds": 24.0, "gate_odds": 0.9, "gates_in": ("check_head",),
        "prefetch": 0, "plans": (("ok",),),
    },
    # Acks of two keys, one of which goes on and the other seems to be empty, meet enqueues of both.
    "crossed": {
        "ways": ("cross",), "keys": "ab", "clients": 1, "gate_odds": 0.9, "gates_in": ("look_again",), "prefetch": 0,
        "plans": (("ok",),), "runners": 1, "jobs": 60, "seconds": 40.0,
    },
    # Members of the same gates end at once, in transactions that wait for each other in their middle.
    "folds": {
        "ways": ("flow", "steered"), "clients": 2, "seconds": 16.0, "jobs": 80, "gate_odds": 0.9,
        "gates_in": ("count_arrivals", "release_dependents", "tell_dependents", "take_dependents_back"), "prefetch": 0,
        "plans": (("ok",), ("ok",), ("die",), ("spawn",)), "durations": (0.0, 0.0, 0.01), "concurrency": 4, "runners": 3,
    },
    # Where nothing fails: they leave it to the folders, which find the gate locked still.
    "met": {
        "ways": ("flow",), "clients": 2, "seconds": 24.0, "jobs": 60, "gate_odds": 0.4, "gates_in": ("count_arrivals",),
        "prefetch": 0, "plans": (("ok",),), "durations": (0.0,), "runners": 3, "late_answers": (), "fragile": (),
    },
    # Outcomes of members arrive when others have the jobs, and run them: their process was frozen for long.
    "late members": {
        **_UNDISTURBED, "runners": 3, "seconds": 60.0, "jobs": 24, "strikes": ("freeze meanwhile",), "strike_odds": 0.1,
        "struck": ("finish_one", "finish_completed"), "freezes": (20.0,), "durations": (4.0, 8.0), "concurrency": 3,
        "ways": ("flow",), "plans": (("ok",), ("ok",), ("die",)),
    },
    # A job is made to wait in its key's line while whoever replaces it waits for its row, and then the head of its key ends.
    "moved": {
        "ways": ("move",), "keys": "ab", "clients": 2, "seconds": 24.0, "jobs": 40, "gate_odds": 0.9,
        "gates_in": ("join_line", "replace_job"), "prefetch": 0, "plans": (("ok",),),
    },
}  # fmt: skip
_OF_STORMS: Final = (
    "late outcomes", "late claims", "late give-backs", "naps", "frozen stock", "lost rescues", "stops", "hands",
)  # fmt: skip
#: The same of those that are about workflows.
_FLOWS_OF: Final = {(False, False): "late members", (True, False): "met", (False, True): "folds"}
#: And about runs of keys.
_RUNS_OF: Final = {
    (False, False): ("runs", "runs", "late runs"),
    (True, False): ("long lines",),
    (False, True): ("pressed runs",),
}
#: By whether a world is calm, and whether it quarrels: how often it has a scene, and which.
_SCENES_OF: Final = {
    (False, False): (0.45, _OF_STORMS), (True, False): (0.3, ("touched", "chased")),
    (False, True): (0.45, ("pressed", "crossed", "moved")),
}  # fmt: skip


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
