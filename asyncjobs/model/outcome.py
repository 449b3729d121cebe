"""What a handler may answer, and what an attempt ended in. Verdicts are values that can be raised; any other exception means a
failed attempt.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, final

import msgspec

from asyncjobs.model.discreet import discreet
from asyncjobs.model.storable import in_ascii

Duration: TypeAlias = timedelta | float  # float: seconds


class _Verdict(Exception):
    """What becomes of the job, said by its handler: returned, or raised from wherever it is known. Equal by what it says."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.args == self.args if isinstance(other, _Verdict) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __repr__(self) -> str:
        told = (f"{name}={value!r}" for name, value in zip(self.__match_args__, self.args, strict=True))
        return f"{type(self).__name__}({', '.join(told)})"

    def __str__(self) -> str:
        return repr(self)


@final
class Snooze(_Verdict):
    """Come back after `delay` (seconds or a timedelta, at least 0) without spending an attempt."""

    __match_args__ = ("delay",)

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)

    @property
    def delay(self) -> Duration:
        """Seconds or a timedelta."""
        delay: Duration = self.args[0]
        return delay


@final
class Retry(_Verdict):
    """This attempt failed: try again after `delay`, or after the type's back-off. The last attempt makes the job dead."""

    __match_args__ = ("delay",)

    def __init__(self, delay: Duration | None = None) -> None:
        super().__init__(delay)

    @property
    def delay(self) -> Duration | None:
        """Seconds or a timedelta; None: the type's back-off."""
        delay: Duration | None = self.args[0]
        return delay


@final
class Cancel(_Verdict):
    """Stop for good without a failure: the job ends `cancelled` with this reason."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """Why."""
        reason: str = self.args[0]
        return reason


@final
class Dead(_Verdict):
    """Give up at once: the job ends `dead` with a dead letter, whatever attempts are left."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """Why."""
        reason: str = self.args[0]
        return reason


@final
class Throttled(_Verdict):
    """A service said to come back after `retry_after`: the job's limit key is closed for so long, and no attempt is spent.

    A job without a limit is snoozed for so long.
    """

    __match_args__ = ("retry_after",)

    def __init__(self, retry_after: Duration) -> None:
        super().__init__(retry_after)

    @property
    def retry_after(self) -> Duration:
        """Seconds or a timedelta."""
        retry_after: Duration = self.args[0]
        return retry_after


Verdict: TypeAlias = Snooze | Retry | Cancel | Dead | Throttled
VERDICTS: Final = (Dead, Cancel, Retry, Throttled, Snooze)  # of several at once, from a task group, the first


def verdict_in(ending: object) -> Verdict | None:
    """The verdict that an attempt ended in, returned or raised; of a task group's, if there is nothing else in it."""
    if issubclass(type(ending), VERDICTS):  # isinstance() may ask for __class__, which is the application's
        return cast("Verdict", ending)
    if not issubclass(type(ending), BaseExceptionGroup):
        return None
    found = [verdict_in(one) for one in cast("BaseExceptionGroup[Any]", ending).exceptions]
    verdicts = [one for one in found if one is not None]
    if len(verdicts) < len(found):
        return None
    return min(verdicts, key=lambda verdict: VERDICTS.index(type(verdict)))


def cause_of(error: BaseException) -> BaseException | None:
    """The error for which this one was raised, as Python's own tracebacks have it."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


OutcomeKind = Literal["completed", "retry", "snooze", "cancel", "dead", "interrupted"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What `decide` made of an attempt: what the ack writes."""

    kind: OutcomeKind
    delay_seconds: float = 0.0  # until run_at, from the server's now()
    result: str | None = None  # JSON text
    result_dropped: str | None = None
    message: str | None = None  # why it ended, at most 8 KiB
    error: Mapping[str, Any] | None = None  # one entry of the job's history of errors
    is_begun: bool = True  # not of a job that was given back before its attempt had begun
    empties: bool = False  # completed, and its type does not keep the payloads of what has
    asked_for: Literal["cancel", "dead"] | None = None  # interrupted because an operator asked for this end of the job

    @property
    def means(self) -> OutcomeKind:
        """What becomes of the job, as far as its runner knows: of one that an operator ends, that; the ack sees to it."""
        return self.asked_for or self.kind

    def __repr__(self) -> str:
        return discreet(self, "result")


#: How nearly all attempts end.
COMPLETED: Final = Outcome(kind="completed")

_REFUSED: Final = "the database refused to store the outcome of this attempt"


def refused(outcome: Outcome) -> Outcome:
    """A failed attempt in place of an outcome that the database does not take. A handler that did its work is not run again."""
    message = _REFUSED
    if outcome.message and outcome.message.startswith(_REFUSED) and outcome.message.isascii():
        return outcome  # that is one already
    if outcome.message:
        message += f": {in_ascii(outcome.message)}"
    kind: OutcomeKind = "retry" if outcome.kind == "retry" else "dead"
    error = {"type": "UnstorableResult", "message": message}
    return Outcome(kind=kind, delay_seconds=outcome.delay_seconds, message=message, error=error)
