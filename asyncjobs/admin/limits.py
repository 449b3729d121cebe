"""Verbs on limits."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import Desk
from asyncjobs.declare.limit import Rate, config_weight
from asyncjobs.errors import ConfigurationError, LimitNotFound, UsageError
from asyncjobs.model.audit import UNNAMED
from asyncjobs.model.names import shown
from asyncjobs.settings import config_count
from asyncjobs.store import limits
from asyncjobs.store.limits import KeyRow, LimitKind, LimitRow

T = TypeVar("T")

_MOST: Final = 2**31 - 1


class Limits(Desk):
    """Verbs on limits, and on totals of queues (`kind="queue"`)."""

    async def limits(self) -> list[LimitRow]:
        """Every limit and every total of a queue that was ever declared: what counts now, who said so, and how it is used."""
        return await self._do("limits", limits.listed)

    async def limit(self, name: str, /, *, kind: LimitKind = "limit") -> LimitRow:
        """One of them. LimitNotFound."""
        everything = await self.limits()
        for one in everything:
            if (one.kind, one.name) == (kind, name):
                return one
        raise LimitNotFound(name, [one.name for one in everything if one.kind == kind])

    async def limit_keys(self, name: str, /, *, most: int = 100) -> list[KeyRow]:
        """The keys of a limit that have something running or waiting: first whose first job waits for longest. LimitNotFound."""
        await self.limit(name)
        return await self._do("limit_keys", lambda link: limits.keys_of(link, name, most))

    @recorded("limits.set", "{kind} {name}")
    async def set_limit(
        self,
        name: str,
        /,
        *,
        total: float | None = None,
        each: float | None = None,
        rate: Rate | float | None = None,
        weight: float | None = None,
        kind: LimitKind = "limit",
        by: str | None = None,
    ) -> LimitRow:
        """Set values that count over what programs declare, until `reset_limit`; `math.inf`: none of that kind. What is not given
        stays as it is. What was lowered holds for what is claimed from now on: what runs goes on. LimitNotFound, UsageError.
        """
        values: dict[str, Any] = {}
        for what, value in (("total", total), ("each", each)):
            if value is not None:
                values[what] = None if value == inf else _said(partial(config_count, value, name=what, least=1, most=_MOST))
        if isinstance(rate, Rate):
            values |= {"every": rate.every_seconds, "burst": rate.burst}
        elif rate is not None:
            if rate != inf:
                raise UsageError(f"rate={shown(rate)}: give Rate(600, per=60), or math.inf for none.")
            values |= {"every": None, "burst": None}
        if weight is not None:
            values["weight"] = _said(partial(config_weight, weight, name="weight"))
        if not values:
            raise UsageError("nothing to set: give total=, each=, rate= or weight=.")
        if kind == "queue" and set(values) != {"total"}:
            raise UsageError(f"a queue has a total and nothing else: {', '.join(sorted(set(values) - {'total'}))} cannot be set.")
        return await self._changed(kind, name, values, by)

    @recorded("limits.reset", "{kind} {name}")
    async def reset_limit(self, name: str, /, *, kind: LimitKind = "limit", by: str | None = None) -> LimitRow:
        """Let what programs declare count again. LimitNotFound."""
        return await self._changed(kind, name, None, by)

    @recorded("limits.open", "limit key {key}")
    async def open_limit_key(self, key: str, /, *, by: str | None = None) -> None:
        """Open a key that a service, or its rate, has closed, as `limit_keys` shows it. LimitNotFound."""
        del by  # for the record
        if not await self._do("open_limit_key", lambda link: limits.open_key(link, key)):
            raise LimitNotFound(key)

    async def _changed(self, kind: LimitKind, name: str, values: dict[str, Any] | None, by: str | None) -> LimitRow:
        if not await self._do(
            "set_limit",
            lambda link: limits.change(link, kind, name, values, by or (None if self.actor.by == UNNAMED else self.actor.by)),
        ):
            await self.limit(name, kind=kind)
        self._opened("admin was called").wakes.due_in(0.0)
        return await self.limit(name, kind=kind)


def _said(check: Callable[[], T]) -> T:
    """As a declaration would have it."""
    try:
        return check()
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
