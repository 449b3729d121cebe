"""Two or three calls at a time, on a small world, through every wait for a lock: what no serial order gives is a finding.

So is what a single call breaks: the ends of serial orders are what the others are held against.

It cannot see: interleavings inside of a call that waits for nothing, wakes, and what runners remember of what they were told.
"""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from tests.interleavings.judging import broken, judge
from tests.interleavings.known import is_known
from tests.interleavings.lab import Held, Lab
from tests.interleavings.worlds import World

#: Calls that give up a lock after a fraction of a second: they are played a second time, against one who holds on for longer.
_SHORT = re.compile(r"^(pause_key|resume_key|release_key|promote_keyed|rescue|prune|release_ended|ack|finish_)")


class Finding(tuple[Any, ...]):
    """What, of which calls, how held, in which world."""

    __slots__ = ()

    def __str__(self) -> str:
        what, names, held, world = self
        return f"{what}\n    {' x '.join(names)} ({held}), in {world!r}"


class Explorer:
    """Plays one world."""

    def __init__(
        self,
        lab: Lab,
        world: World,
        *,
        calls: str = "",
        having: str = "",
        patient: bool = False,
        tell: Callable[["Finding"], object] | None = None,
    ) -> None:
        self._lab = lab
        self._world = world
        self._calls, self._having = re.compile(calls), re.compile(having)
        self._patient = patient
        self._tell = tell
        self.found: list[Finding] = []
        self.waiting: list[tuple[str, str]] = []

    async def pairs(self) -> None:
        """All pairs of calls of which neither is idle beside the other."""
        await self._lab.build(self._world)
        self._nothing = (await self._lab.serial(()))[1:]
        self._names = [name for name in self._lab.calls if self._calls.search(name) and not name.startswith("(")]
        self._inert = {name for name in self._names if (await self._lab.serial((name,)))[1:] == self._nothing}
        await self._singles()
        for pair in itertools.permutations(self._names, 2):
            if self._having.search("|".join(pair)) and not await self._is_idle(*pair):
                await self._pair(*pair)

    async def _singles(self) -> None:
        """Each call by itself: it breaks nothing that was whole before."""
        before = set(broken(await self._lab.serial(())))
        for name in self._names:
            for what in broken(await self._lab.serial((name,))):
                if what not in before:
                    self._note(f"INVARIANT {what}", (name,), Held())

    async def _is_idle(self, first: str, second: str) -> bool:
        """Whether one of them does nothing: by itself, and after the other."""
        if {first, second} <= self._inert:
            return True
        for one, other in ((first, second), (second, first)):
            if other in self._inert and (await self._lab.serial((one, other)))[1:] == (await self._lab.serial((one,)))[1:]:
                return True
        return False

    async def _pair(self, first: str, second: str) -> None:
        for held in self._holds(first):
            if (await self._play((first, second), held))[0] and held.after is None:
                if (first, second) not in self.waiting:
                    self.waiting.append((first, second))
                if held.transaction == 0:  # what is committed is not taken back: it is called again
                    await self._play((first, second), held._replace(ends="ROLLBACK"))
                if self._patient and _SHORT.match(second):
                    await self._play((first, second), held._replace(is_patient=True))

    def _holds(self, name: str) -> list[Held]:
        """Every place at which the call can be held."""
        transactions = self._lab.calls[name].transactions
        held = [Held(at) for at, texts in enumerate(transactions) if not texts[0].startswith("SELECT asyncjobs.wait_for")]
        return held + [Held(at, after) for at, texts in enumerate(transactions) for after in range(1, len(texts))]

    async def triples(self, most: int, chance: random.Random) -> None:
        """A third call comes while a second waits for the first; at most so many of these, by chance."""
        mine = [name for name in self._names if name not in self._inert or name.startswith("progress")]
        triples = [(*pair, third) for pair in self.waiting for third in mine if third not in pair]
        for triple in chance.sample(triples, min(most, len(triples))):
            await self._play(triple, chance.choice(self._holds(triple[0])))

    async def _play(self, names: tuple[str, ...], held: Held) -> list[bool]:
        seen, waited = await self._lab.play(names, held)
        for what in await judge(self._lab, names, held, seen):
            self._note(what, names, held)
        return waited

    def _note(self, what: str, names: tuple[str, ...], held: Held) -> None:
        excused = is_known(what, names, self._world.name, is_split=held.after is not None)
        if not excused and not self._is_old(what, names):
            self.found.append(Finding((what, names, held, self._world.name)))
            if self._tell is not None:
                self._tell(self.found[-1])

    def _is_old(self, what: str, names: Sequence[str]) -> bool:
        """Whether two of the three do it as well."""
        kind = what.partition(" ")[0]
        return len(names) > 2 and any(
            found[0].partition(" ")[0] == kind and len(found[1]) == 2 and set(found[1]) < set(names) for found in self.found
        )
