"""An app of the program, pointed somewhere else for a test: its declarations stay what they are."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Literal, TypeAlias, Unpack

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.context import JobContext, Resource
from asyncjobs.dsn import parse_dsn
from asyncjobs.errors import ConfigurationError, UsageError
from asyncjobs.model.names import kind_of, shown
from asyncjobs.model.outcome import Duration
from asyncjobs.settings import MoreSettings, make_settings

#: What `ctx.use` takes.
Provider: TypeAlias = Callable[[JobContext[AsyncJobs]], AbstractAsyncContextManager[Any]] | Resource[Any]


class Settings(MoreSettings, total=False):
    """What may be overridden besides the DSN: everything that is no declaration."""

    schema: str
    notify: Literal["auto", "listen", "poll"]
    listen_dsn: str | None
    pool_size: int
    grace: Duration | None
    connect_timeout: Duration
    poll_interval: Duration | None
    auto_migrate: bool


@contextmanager
def override(
    jobs: AsyncJobs,
    /,
    *,
    dsn: str | None = None,
    stand_ins: Mapping[Provider, Provider] | None = None,
    runs: bool = True,
    **settings: Unpack[Settings],
) -> Generator[AsyncJobs]:
    """Let the app use this DSN and these settings in the block, then its own again.

    With another DSN, `listen_dsn` and `connect_kwargs`, which belong to the app's own server, are left out, and the schema is
    created when it is not there (`auto_migrate`), unless said otherwise. `stand_ins` maps what handlers `ctx.use` to what they
    get instead. With `runs=False` lifespans and `jobs.runner()` open the app and run nothing: `run_until_idle` does. The app must
    be closed at the beginning and at the end: open it inside. UsageError when it is open, ConfigurationError for a setting that
    cannot be meant.
    """
    _refuse_open(jobs, "before override() is entered")
    _check_runs(runs)
    own_dsn, own_settings, own_stand_ins, rested = jobs.dsn, jobs.settings, jobs.stand_ins, jobs.rests
    given: dict[str, Any] = dict(settings)
    if dsn is not None:
        parse_dsn(dsn)
        given = {"listen_dsn": None, "connect_kwargs": {}, "auto_migrate": True, **given}
    # Made before anything is changed: what is refused leaves the app as it was.
    changed = make_settings({**msgspec.structs.asdict(own_settings), **given})
    jobs.dsn, jobs.settings = own_dsn if dsn is None else dsn, changed
    given_stand_ins: Mapping[Any, Any] = stand_ins or {}
    jobs.stand_ins, jobs.rests = {**own_stand_ins, **given_stand_ins}, rested or not runs
    try:
        yield jobs
        _refuse_open(jobs, "before override() is left")
    finally:
        jobs.dsn, jobs.settings, jobs.stand_ins, jobs.rests = own_dsn, own_settings, own_stand_ins, rested


def _check_runs(runs: object) -> None:
    if not isinstance(runs, bool):
        raise ConfigurationError(f"runs={shown(runs)} is {kind_of(runs)}: give True or False.")


def _refuse_open(jobs: AsyncJobs, when: str) -> None:
    if jobs.lifecycle.opened is not None:
        raise UsageError(f"{jobs!r} is open: close it {when}.")
