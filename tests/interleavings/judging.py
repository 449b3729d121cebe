"""What is wrong with a play.

What came out has to be what some serial order gives: the answers, and the tables when the duties have had their turn. Those that
pass over locked rows may have done nothing instead, an ack may have claimed less, and a call that gave up counts as not made, or
as the part of it that was committed before. Besides: no deadlock and no other error; the lines and the dedup keys are sound;
nothing is pending or started that an answered pause holds back; what was ended stays ended.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.interleavings.lab import Held, Lab, Seen

_FINAL: Final = {"completed", "dead", "cancelled"}
#: Errors by which a call says that it gave up, or that its caller is to make it again.
_GAVE_UP: Final = ("55P03",)


def broken(seen: Seen) -> Iterator[str]:
    """Invariants of one end."""
    jobs, line = seen.raw["jobs"], seen.raw["line"] or []
    status = {job["id"]: job["status"] for job in jobs}
    for key in {stay["key"] for stay in line}:
        mine = [stay for stay in line if stay["key"] == key]
        if any(stay["is_head"] for stay in mine) and not mine[0]["is_head"]:
            yield "order: the head does not stand first"
        if ["key", key] in (seen.raw["pauses"] or []) and any(status.get(stay["id"]) == "pending" for stay in mine):
            yield "pause: a job of a paused key is pending"
    yield from _dedup(jobs)
    yield from (f"pause: {job} started after the pause of the {kind} was answered" for job, kind in seen.raw["late"])
    requested = seen.raw["requests"]
    yield from (f"audit: {job} {problem}" for job, problem in seen.raw["audit"] if not ("no head" in problem and requested))
    yield from (f"audit after the duties: {job} {problem}" for job, problem in seen.settled["audit"])


def _dedup(jobs: Sequence[Any]) -> Iterator[str]:
    live = [job["dedup"] for job in jobs if job["status"] not in _FINAL and job["dedup"]]
    yield from (f"dedup: {count} live jobs have key {key}" for key, count in Counter(live).items() if count > 1)


async def judge(lab: Lab, names: Sequence[str], held: Held, seen: Seen) -> list[str]:
    """All that is wrong with it."""
    kept = list(names[held.ends == "ROLLBACK" :])
    failed = {name: str(seen.answers[name]) for name in kept if isinstance(seen.answers[name], str)}
    found = [
        f"{'DEADLOCK' if '40P01' in error else 'ERROR'} {name}: {error[:110]}"
        for name, error in failed.items()
        if not any(code in error for code in _GAVE_UP) and not (name.startswith("rr ") and "40001" in error)
    ]
    is_state, is_serial, excused = False, False, set[str]()
    for order in _orders(lab, kept, failed):
        reference = await lab.serial(order)
        excused |= set(broken(reference))
        same = reference.settled == seen.settled
        is_state = is_state or same
        is_serial = is_serial or (
            same
            and all(
                reference.answers[name] == seen.answers[name] for name in order if name in seen.answers and order.count(name) == 1
            )
        )
    found += [f"INVARIANT {one}" for one in broken(seen) if one not in excused]
    found += _revived(kept, failed, seen)
    if not is_serial:
        found.append("ANSWERS of no serial order" if is_state else "STATE of no serial order")
    return found


def _orders(lab: Lab, kept: Sequence[str], failed: dict[str, str]) -> Iterator[tuple[str, ...]]:
    choices: list[list[str]] = []
    for name in kept:
        call = lab.calls[name]
        lesser = "" if call.passes_over else call.less
        choices.append([call.given_up or ""] if name in failed else [name] if lesser is None else [name, lesser])
    for chosen in itertools.product(*choices):
        yield from itertools.permutations([name for name in chosen if name])


def _revived(kept: Sequence[str], failed: dict[str, str], seen: Seen) -> Iterator[str]:
    status = {job["id"]: job["status"] for job in seen.settled["jobs"]}
    if any(name.startswith(("retry", "requeue")) for name in kept):
        return
    for name in kept:
        if name.startswith(("cancel ", "dead ")) and name not in failed:
            said, now = seen.answers[name][0][0], status.get(name[-1])
            if said in _FINAL and now not in {said, None}:
                yield f"REVIVED {name} answered {said}, and the job is {now}"
