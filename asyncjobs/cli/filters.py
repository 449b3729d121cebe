"""Filters on the command line, and what verbs on all that fits have in common."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, cast, get_args

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.failures import NOT_DONE, BadInput, NothingFound
from asyncjobs.cli.kit import MOMENT, Asked, Choice, option
from asyncjobs.model.finding import JobFilter
from asyncjobs.model.status import Status

STATUSES: Final[tuple[str, ...]] = get_args(Status)

SINCE: Final = option(
    "--since", type=MOMENT, metavar="WHEN", help="What happened then or later: how long ago, as 15m, 1h, 2d, or when (UTC)."
)
UNTIL: Final = option("--until", type=MOMENT, metavar="WHEN", help="What happened before.")

JOBS: Final = (
    option("--type", metavar="NAME", help="Jobs of this type."),
    option("--status", multiple=True, type=Choice(STATUSES), help="Jobs in this status; may be said several times."),
    option("--queue", metavar="NAME", help="Jobs of this queue."),
    option("--key", metavar="KEY", help="Jobs of this serialization key."),
    option("--correlation-id", metavar="ID", help="Jobs of one user action."),
    option("--parent", "parent_job_id", type=int, metavar="JOB", help="Jobs that this one enqueued."),
    option("--workflow", type=int, metavar="ID", help="Jobs of this workflow."),
    option("--payload", metavar="JSON", help='Jobs whose payload contains this, as {"to": "ada"}.'),
    option("--error", metavar="TEXT", help="Jobs whose error contains this."),
    option("--tag", multiple=True, metavar="TAG", help="Jobs with this tag; said several times: with all of them."),
    option("--dedup-key", metavar="KEY", help="Jobs of this dedup key."),
    option("--limit-key", metavar="KEY", help="Jobs of this limit key, as api:acme."),
    option("--priority", type=int, metavar="N", help="Jobs of this priority."),
    option("--created-after", type=MOMENT, metavar="WHEN", help="Jobs that were enqueued then or later."),
    option("--created-before", type=MOMENT, metavar="WHEN", help="Jobs that were enqueued before."),
    SINCE,
    UNTIL,
)
LIMIT: Final = option("--limit", type=int, default=100, show_default=True, metavar="N", help="At most so many.")
BEFORE: Final = option("--before", type=int, metavar="ID", help="Only lower ids: the next page.")


class Done(Protocol):
    """What a verb on many did: of jobs or of dead letters."""

    @property
    def changed(self) -> int:
        """How many are, or would be, changed."""
        ...

    @property
    def outcomes(self) -> Mapping[Any, int]:
        """How many came to which outcome."""
        ...


D = TypeVar("D", bound=Done)


def job_filter(given: Mapping[str, Any]) -> JobFilter:
    """The filter that these options say. BadInput for a payload that is no JSON object."""
    which = dict(given)
    which["status"] = list(which["status"]) or None
    which["tag"] = list(which["tag"]) or None
    if which["payload"] is not None:
        which["payload"] = json_object(which["payload"], "--payload")
    return cast("JobFilter", which)


def json_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object that was typed; BadInput."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise BadInput(f"{what} is no JSON object: {error}.") from None


def is_filtered(which: Mapping[str, Any]) -> bool:
    """Whether anything was said."""
    return any(value is not None for value in which.values())


async def all_that_fit(
    asked: Asked, what: str, do: Callable[[bool, Callable[[int], None]], Awaitable[D]], *, dry_run: bool
) -> int | None:
    """Do it to all that fit, after a look and a question. `do(dry_run, progress)` is the verb.

    NothingFound when nothing fits; NOT_DONE when nothing that fits was changed.
    """
    with screen.progress("looking") as told:
        would = await do(True, told)
    if not would.outcomes:
        raise NothingFound("nothing fits the filter: nothing was done.")
    if dry_run:
        asked.answer(_data(would), lambda: f"would {what} {would.changed:,}: {outcomes(would)}")
        return None
    asked.sure(f"this would {what} {would.changed:,} ({outcomes(would)})")
    with screen.progress(what) as told:
        done = await do(False, told)
    asked.answer(_data(done), lambda: outcomes(done))
    return None if done.changed else NOT_DONE


def _data(done: Done) -> Mapping[str, object]:
    return {"changed": done.changed, "outcomes": done.outcomes}


def outcomes(done: Done) -> str:
    """How many came to which outcome."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(done.outcomes.items())) or "none"
