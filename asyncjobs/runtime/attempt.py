"""One execution of one job, from claim to outcome, as a row of small steps.

    decode the payload → open the context → enter the hooks → call the handler within its timeout → close what it used → decide →
    leave the hooks → free the slot → ack

Whatever the handler does (raise anything at all, leak a CancelledError, return what cannot be stored, ignore its cancellation)
ends this attempt and nothing else. A part that wants the attempt to end calls `cancel(reason)`; the reason decides what a
CancelledError that comes out of the handler means. So it is when other code cancels the attempt's task, as `asyncio.run` does
with all tasks at its end: the attempt is interrupted. Any other error that comes out afterwards is taken for the clean-up's, and
told, not charged. A CancelledError of something that the handler awaited is the handler's own, and a failed attempt; so is a
SystemExit, whatever was cancelled by it.

Nothing begins in a runner that others may have declared dead: its jobs may have been done elsewhere. Whether that is so is looked
at when the attempt's turn comes, and again at the very instant at which the handler is called (in a thread: by that thread): the
process may have been frozen in between, so it goes by a clock that went on meanwhile. An attempt that does not begin is given
back, if its claim is still there. So is one whose job has expired by then (`runtime/expiry.py`). What was frozen in its middle
goes on until it notices; its claim is fenced.

A handler that ignores cancellation keeps its slot until it really ends. If it then returns a value although its time was over,
the attempt has still timed out: it may have skipped its work, and losing work is worse than doing it twice. The same holds for a
plain function that was asked to end and saw it in `ctx.cancelled`: it may have left. The answer of one that never looked counts.

When an operator asked for the end (`obey`), that is how the attempt ends, whatever the handler says after it was told.
"""

import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from asyncjobs.connections import Connection, SyncConnection
from asyncjobs.context import Resource
from asyncjobs.declare.hooks import Hook, after_failed, enter_attempt
from asyncjobs.declare.upstream import names_results
from asyncjobs.errors import AttemptTimeout, ClaimLost, FailedByHand, NotCommitted, UndecodablePayload
from asyncjobs.model.claim import Ack, Claimed, progress_text, to_job
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import COMPLETED, VERDICTS, Outcome, Throttled, verdict_in
from asyncjobs.model.redaction import scrubbed_outcome, secrets_in, stand_in
from asyncjobs.model.request import Request, Wanted
from asyncjobs.model.retrying import Retrying
from asyncjobs.model.storable import safe_str
from asyncjobs.model.trace import own_trace
from asyncjobs.model.transition import Interrupted, decide
from asyncjobs.runtime.abandoned import abandon
from asyncjobs.runtime.closing import Context, close
from asyncjobs.runtime.definition import JobDefinition
from asyncjobs.runtime.expiry import has_expired
from asyncjobs.runtime.threads import Threads, to_the_end
from asyncjobs.runtime.upstream import Read, no_results, payload_with_results
from asyncjobs.store.reading import decoded_or
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, Events, HookRaised

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")

CancelReason = Literal["shutdown", "claim lost", "cancel requested", "kill requested", "failure requested"]

_REASONS: Final[dict[Wanted, CancelReason]] = {
    "cancel": "cancel requested",
    "dead": "kill requested",
    "fail": "failure requested",
}

_NOT_COMMITTED: Final = (
    "the handler returned, but the transaction of its ctx.complete() was not committed: its effects are gone. "
    "Commit it before the handler returns."
)
_NOT_LOST: Final = (
    "the handler ended in ClaimLost, and its claim was there: it called ctx.complete() or ctx.progress() after a completion, or "
    "on a connection that does not see the claim. Its completion was not committed."
)

#: Of an attempt whose task alone was cancelled: a handler may have done that itself, and would at once do so again.
_AGAIN_SECONDS: Final = 1.0

#: The attempt for which the current task works: the handler's own, or one that it started.
_current: ContextVar["Attempt | None"] = ContextVar("asyncjobs_running_attempt", default=None)


OpenContext: TypeAlias = Callable[["Attempt"], Context]


class WasCommitted(Protocol):
    """Tells what became of the transaction in which an attempt completed its job."""

    def __call__(self, attempt: "Attempt", /, *, is_patient: bool) -> Awaitable[bool | None]:
        """Whether it was committed; None: not known yet. `is_patient`: wait a moment for its end."""
        ...


async def _has_no_key(_claimed: Claimed, _seconds: float) -> bool:
    return False


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a runner share."""

    events: Events
    open_context: OpenContext  # in the attempt's task
    name_job: Callable[[int, str], None]  # to the lines of the log of the attempt's task
    runner_id: Callable[[], int]
    threads: Threads
    max_result_bytes: int
    max_error_bytes: int
    report_progress: Callable[["Attempt"], None]
    complete: Callable[["Attempt", Any, str | None, str | None], Any]
    complete_sync: Callable[["Attempt", Any, str | None, str | None], None]
    was_committed: WasCommitted
    share: Callable[[Resource[Any]], Awaitable[Any]]
    close_key: Callable[[Claimed, float], Awaitable[bool]] = _has_no_key  # of its limit, for so many seconds: whether it is
    may_begin: Callable[[], bool] = lambda: True  # from any thread: whether no other runner can have taken what was claimed
    results: Read = no_results  # of other members of a workflow
    loop_ends: Callable[[], bool] = lambda: False  # whether every task there is was cancelled
    hooks: Sequence[Hook] = ()
    hook_seconds: float = 30.0  # for each call of a hook
    retrying: Retrying = Retrying()  # what the app says of failed attempts, where their type does not
    keeps_payload: bool = True  # likewise of what has completed


class Attempt:
    """A running attempt. `run` is its task; `cancel` asks it to end."""

    # Of the class, until an attempt needs its own: most never do, and there are many.
    deadline_at: float | None = None
    in_hook: str | None = None  # and its method, while it runs
    cancel_reason: CancelReason | None = None
    cancelled_at: float | None = None  # since when it should have ended
    completed_in_transaction = False  # perhaps: the transaction's end decides
    is_completed = False
    reported: tuple[float, str] | None = None  # how far it is, by the last word of it that is not written yet
    _has_seen_its_end = False  # in `cancelled`
    _in_thread = False
    _request: Request | None = None
    _task: "asyncio.Task[None] | None" = None
    _context: Context | None = None
    _entered: Sequence[Hook] = ()  # hooks to be left, in reverse
    _decided: tuple[object, Outcome] | None = None

    def __init__(self, claimed: Claimed, definition: JobDefinition, lane: str | None, surroundings: Surroundings) -> None:
        self.claimed = claimed
        self.definition = definition
        self.lane = lane  # whose slot it runs in
        self.started_at = time.monotonic()
        self._surroundings = surroundings
        self._loop = asyncio.get_running_loop()

    def cancel(self, reason: CancelReason) -> None:
        """Ask the handler to end, once."""
        if self.cancel_reason is None:
            self.cancel_reason = reason
            self.cancelled_at = time.monotonic()
            if self._task is not None:
                self._task.cancel()

    def obey(self, request: Request) -> None:
        """End it as an operator asked for; the last request counts. It changes nothing when it was to end for another reason."""
        self.cancel(_REASONS[request.wanted])
        if self.cancel_reason in _REASONS.values():
            self._request = request

    def abandon(self) -> None:
        """No stop waits for it any more: the process may end without it."""
        if self._task is not None:
            abandon(self._task)

    @property
    def may_go_on(self) -> bool:
        """Whether its handler may still do something. From any thread."""
        return self._in_thread or not self._loop.is_closed()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where it runs."""
        return self._loop

    @property
    def run_seconds(self) -> float:
        """Since when it runs."""
        return time.monotonic() - self.started_at

    @property
    def is_current(self) -> bool:
        """Whether the caller is this attempt's handler, or a task that it started."""
        return _current.get() is self

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end: it was asked to, or its time is over."""
        if self.cancel_reason is not None or self._is_late:
            self._has_seen_its_end = True
        return self._has_seen_its_end

    @property
    def _is_late(self) -> bool:
        return self.deadline_at is not None and self._loop.time() >= self.deadline_at

    @property
    def overdue_seconds(self) -> float:
        """For how long the handler has ignored that it should end."""
        now = time.monotonic()
        by_request = now - self.cancelled_at if self.cancelled_at is not None else 0.0
        by_timeout = self._loop.time() - self.deadline_at if self.deadline_at is not None else 0.0
        return max(by_request, by_timeout, 0.0)

    @property
    def keeps_payload(self) -> bool:
        """Whether the job's payload stays when it has completed: as its enqueue says, else its type, else its app."""
        keeps = self.definition.keeps_payload if self.claimed.keep_payload is None else self.claimed.keep_payload
        return self._surroundings.keeps_payload if keeps is None else keeps

    def start(self, ended: Callable[["Attempt", Ack], None]) -> asyncio.Task[None]:
        """Run in a task of its own, with an empty context: nothing of a request that happened to open the app leaks into jobs."""
        self._tell = ended
        task = self._task = self._loop.create_task(self._run(), name=f"job {self.claimed.id}", context=contextvars.Context())
        # A task that is cancelled before its first step never enters its coroutine: nothing would free the slot.
        task.add_done_callback(self._never_ran)
        return task

    def hand_over(self, ended: Callable[["Attempt", Ack], None]) -> None:
        """Its end is another's to hear of."""
        self._tell = ended

    def _never_ran(self, _task: "asyncio.Task[None]") -> None:
        self._end(Interrupted())

    async def _run(self) -> None:
        if self._task is not None:
            self._task.remove_done_callback(self._never_ran)
        _current.set(self)
        ending: object
        try:
            # Read before the look: a start that it allows is told as of then, whatever froze it since.
            began_at = time.monotonic() if self._surroundings.events.wants(AttemptStarted) else None
            self._see_whether_it_may_begin()
            if began_at is not None:
                self._emit_started(began_at)
            timeout = self.claimed.timeout_seconds
            ending = await (self._call() if timeout is None else self._call_in_time(timeout))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises ends its attempt, not the runner
            ending = self._meaning_of(error)
        if self.completed_in_transaction:
            ending = await self._as_committed(ending)
        if self._request is not None:
            ending = self._as_requested(ending)
        for hook in reversed(self._entered):
            ending = self._as_requested(await self._left(hook, ending))
        if self.claimed.limit_key is not None and type(verdict_in(ending)) is Throttled:
            await self._throttle(ending)
        self._end(ending)

    async def _as_committed(self, ending: Any) -> object:
        """What the handler ended in; NotCommitted if its transaction was rolled back (`runtime/verifier.py`)."""
        lost = ending if issubclass(type(ending), ClaimLost) else None
        if lost is None and self._outcome_of(ending).kind != "completed":
            return ending
        try:
            was_committed = await self._surroundings.was_committed(self, is_patient=not self._entered)
        except asyncio.CancelledError:  # too late: it has ended, and what became of the transaction is found out later
            return ending
        if was_committed is not False:
            return ending
        failure = NotCommitted(_NOT_COMMITTED if lost is None else _NOT_LOST)
        failure.__cause__ = lost
        return failure

    async def _throttle(self, ending: object) -> None:
        """Close the key of its limit: then the job itself needs not wait elsewhere."""
        outcome = self._outcome_of(ending)
        if outcome.kind != "snooze":
            return
        try:
            is_closed = await self._surroundings.close_key(self.claimed, outcome.delay_seconds)
        except asyncio.CancelledError:  # too late: it has ended, and the job itself waits
            return
        if is_closed:
            self._decided = ending, msgspec.structs.replace(outcome, delay_seconds=0.0)

    @property
    def not_committed(self) -> Outcome:
        """How it ends if the transaction in which it completed its job was rolled back."""
        return self._decide(NotCommitted(_NOT_COMMITTED))

    def _as_requested(self, ending: object) -> object:
        if self._request is None or type(ending) is FailedByHand:
            return ending
        return _ending_of(self._request, ending)

    def _end(self, ending: object) -> None:
        outcome = COMPLETED if ending is None else self._outcome_of(ending)
        if outcome.kind != "completed":
            if outcome.kind == "interrupted" and self._context is None:
                outcome = msgspec.structs.replace(outcome, is_begun=False)
            self._emit_ended(outcome, ending)
        else:
            if not self.keeps_payload:
                outcome = msgspec.structs.replace(outcome, empties=True)
            if self._surroundings.events.wants(AttemptEnded):
                self._emit_ended(outcome, ending)
        # Nothing holds anything in a circle any more: what has ended is gone at once, without the collector.
        self._task = self._context = None
        claimed = self.claimed
        key_queue = None if claimed.serialization_key is None else claimed.queue
        if self.reported is None and claimed.expires_epoch is None and claimed.followers is None:
            self._tell(self, Ack(claimed.id, claimed.token, outcome, key_queue))
        else:
            progress, run, number = self.unwritten_progress, claimed.followers, claimed.number
            self._tell(self, Ack(claimed.id, claimed.token, outcome, key_queue, progress, claimed.start_by, run, number))
            self.reported = None

    def _outcome_of(self, ending: object) -> Outcome:
        if self._decided is None or self._decided[0] is not ending:
            try:
                outcome = self._decide(ending)
            except BaseException as error:  # noqa: BLE001 - a result or an error may raise anything when it is looked at
                outcome = self._decide(_cannot_be_judged(ending, error), judges=False)
            if self.definition.redact and outcome.kind != "completed":
                outcome = scrubbed_outcome(outcome, self._secrets)
            self._decided = ending, outcome
        return self._decided[1]

    @property
    def _secrets(self) -> list[str]:
        return secrets_in(decoded_or(self.claimed.payload, {}), self.definition.redact)

    def _told(self, error: BaseException) -> BaseException:
        """The error as sinks are given it."""
        return stand_in(error, self._secrets) if self.definition.redact else error

    async def _left(self, hook: Hook, ending: object) -> object:
        """What the attempt ended in after this hook was left. A cancellation that was asked for is told from the hook's own."""
        context: Any = self._context
        try:
            async with self._limit(hook, "after_attempt"), AsyncExitStack() as context.resources:
                await hook.after_attempt(context, self._outcome_of(ending))
        except BaseException as error:  # noqa: BLE001 - a hook is the application's code
            meaning = self._meaning_of(error)
            if isinstance(meaning, Interrupted) and meaning.cause is None:
                return meaning
            if type(ending) is Interrupted:
                self._surroundings.events.emit(
                    HookRaised(hook=type(hook).__name__, method="after_attempt", type=self.claimed.type, error=error)
                )
                return ending
            return after_failed(hook, error) if meaning is error else meaning
        return ending

    @asynccontextmanager
    async def _limit(self, hook: Hook, method: str) -> AsyncGenerator[None]:
        """The time of one call of a hook, within that of the attempt, which an after_attempt gets anew."""
        given, most, outer = self.claimed.timeout_seconds, self._surroundings.hook_seconds, self.deadline_at
        self.in_hook = f"{type(hook).__name__}.{method}"
        limit = asyncio.timeout(most if given is None else min(given, most))
        try:
            async with limit:
                at = limit.when()
                is_before = method == "before_attempt"
                self.deadline_at = min(at, outer) if is_before and at is not None and outer is not None else at
                yield
        finally:
            self.in_hook, self.deadline_at = None, outer

    async def _call_in_time(self, timeout: float) -> object:
        """The handler's answer; AttemptTimeout when its time was over first."""
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                self.deadline_at = limit.when()
                answer = await self._call()
        except (TimeoutError, *VERDICTS) as error:  # a verdict that comes too late is no answer, either
            if limit.expired():
                raise AttemptTimeout(f"the attempt took longer than its timeout of {timeout:g} s") from error
            raise
        if limit.expired():
            raise AttemptTimeout(f"the attempt went on after its timeout of {timeout:g} s")
        return answer

    async def _call(self) -> object:
        claimed, definition = self.claimed, self.definition
        payload = claimed.payload
        if names_results(payload):
            payload = await payload_with_results(claimed, self._surroundings.results, definition.paged)
        arguments = definition.decode_payload(payload, claimed.version)
        for name in definition.paged:
            if name in arguments:  # else it is left to its default
                arguments[name].open(claimed.type, partial(self._surroundings.results, claimed.id))
        self._context = context = self._surroundings.open_context(self)
        self._surroundings.name_job(claimed.id, claimed.type)
        hooks = self._surroundings.hooks
        answer: object = None
        try:
            if hooks:
                self._entered = entered = list[Hook]()
                await enter_attempt(hooks, context, entered, limit=self._limit)
                self._see_whether_it_may_begin()  # else nothing was waited for since it was looked at
            function = definition.function if definition.is_async else self._call_in_thread
            answer = await (function(context, **arguments) if definition.takes_context else function(**arguments))
        except BaseException as error:
            if not await close(context, error):
                raise
        else:
            if context.resources is not None:
                await close(context)
        return answer

    def _see_whether_it_may_begin(self) -> None:
        if self.cancel_reason is not None or not self._surroundings.may_begin():
            raise ClaimLost(f"job {self.claimed.id} does not begin here: its claim may be another's by now.")
        if self.claimed.expires_epoch is not None and has_expired(self.claimed):
            raise ClaimLost(f"job {self.claimed.id} does not begin here: it has expired.")

    @property
    def job(self) -> Job:
        """The job as its handler sees it."""
        return to_job(self.claimed)

    @property
    def log(self) -> "FilteringBoundLogger":
        """The handler's logger."""
        import structlog

        claimed = self.claimed
        logger: FilteringBoundLogger = structlog.get_logger(
            "asyncjobs.job",
            job_id=claimed.id,
            job_type=claimed.type,
            attempt=claimed.attempt,
            correlation_id=claimed.correlation_id or own_trace(claimed.id),
        )
        return logger

    async def _call_in_thread(self, *args: Any, **kwargs: Any) -> object:
        function = self.definition.function

        def call() -> tuple[Any, BaseException | None]:
            try:
                self._see_whether_it_may_begin()
                return function(*args, **kwargs), None
            except BaseException as error:  # noqa: BLE001 - SystemExit in a task of its own would end the event loop
                return None, error
            finally:
                self._in_thread = False

        self._in_thread = True
        (answer, error), cancelled = await to_the_end(self._surroundings.threads.run(call))
        if cancelled is not None and (error is not None or self._has_seen_its_end or self._is_late):
            raise cancelled
        if error is not None:
            raise error
        return await answer if self.definition.wraps_async and isinstance(answer, Coroutine) else answer

    def _meaning_of(self, error: BaseException) -> object:
        # isinstance() may ask for __class__, which is the application's: where that raised, slot and job were lost.
        kind = type(error)
        is_cancelled = issubclass(kind, asyncio.CancelledError)
        if self.cancel_reason in _REASONS.values():
            return Interrupted() if is_cancelled else error  # `_as_requested` goes on
        if self.cancel_reason is None and not self._is_cancelled_from_outside(is_cancelled=is_cancelled):
            return error
        if is_cancelled:
            return Interrupted(delay_seconds=0.0 if self.cancel_reason or self._surroundings.loop_ends() else _AGAIN_SECONDS)
        if issubclass(kind, (AttemptTimeout, UndecodablePayload, *VERDICTS)) or not issubclass(kind, Exception):
            return error
        return Interrupted(cause=error)

    def _is_cancelled_from_outside(self, *, is_cancelled: bool) -> bool:
        """Whether other code ends the task. An error beside it is the handler's own, unless all tasks end."""
        task = self._task
        return task is not None and task.cancelling() > 0 and (is_cancelled or self._surroundings.loop_ends())

    def _decide(self, ending: object, *, judges: bool = True) -> Outcome:
        """The outcome. Without what the application says of errors (`judges`) nothing of the user's is called."""
        return decide(
            ending,
            attempt=self.claimed.attempt,
            max_attempts=self.claimed.max_attempts,
            retrying=self.definition.retrying.over(self._surroundings.retrying) if judges else Retrying(),
            encode_result=self.definition.encode_result,
            max_result_bytes=self._surroundings.max_result_bytes,
            max_error_bytes=self._surroundings.max_error_bytes,
            waited_seconds=self.claimed.started_epoch - self.claimed.scheduled_epoch,
        )

    def progress(self, done: float, note: str) -> None:
        """Take note of how far the handler is; written now and then, and with the outcome. From the handler's thread, too."""
        if self.is_completed:
            raise ClaimLost(f"job {self.claimed.id} is completed: no progress after ctx.complete().")
        self.reported = float(done), str(note)
        self._loop.call_soon_threadsafe(self._surroundings.report_progress, self)

    @property
    def unwritten_progress(self) -> str | None:
        """What its outcome takes along."""
        return None if self.reported is None else progress_text(*self.reported)

    async def complete(self, connection: Connection, result: object) -> None:
        """Complete the job in the handler's own transaction. ClaimLost: let that transaction roll back."""
        text = self.definition.encode_result(result)
        dropped = too_large(text, self._surroundings.max_result_bytes)
        # Set before: with a connection outside of a transaction it may take effect although this call never hears of it.
        self.completed_in_transaction = True
        await self._surroundings.complete(self, connection, None if dropped else text, dropped)
        self.is_completed = True

    def complete_sync(self, connection: SyncConnection, result: object) -> None:
        """`complete` on a synchronous connection, in the handler's thread."""
        text = self.definition.encode_result(result)
        dropped = too_large(text, self._surroundings.max_result_bytes)
        self.completed_in_transaction = True
        self._surroundings.complete_sync(self, connection, None if dropped else text, dropped)
        self.is_completed = True

    async def share(self, resource: Resource[T], /) -> T:
        """What all attempts of the runner share."""
        value: T = await self._surroundings.share(resource)
        return value

    def _emit_started(self, began_at: float) -> None:
        claimed = self.claimed
        self._surroundings.events.emit(
            AttemptStarted(
                job_id=claimed.id, type=claimed.type, queue=claimed.queue, attempt=claimed.attempt, token=claimed.token,
                runner_id=self._surroundings.runner_id(), serialization_key=claimed.serialization_key,
                queued_seconds=max(claimed.started_epoch - claimed.run_epoch, 0.0),
                correlation_id=claimed.correlation_id or own_trace(claimed.id), trace_context=claimed.trace_context,
                began_at=began_at,
            )
        )  # fmt: skip

    def _emit_ended(self, outcome: Outcome, ending: Any) -> None:
        claimed = self.claimed
        self._surroundings.events.emit(
            AttemptEnded(
                job_id=claimed.id, type=claimed.type, queue=claimed.queue, attempt=claimed.attempt, token=claimed.token,
                runner_id=self._surroundings.runner_id(), outcome=outcome.means, message=outcome.message,
                serialization_key=claimed.serialization_key, run_seconds=self.run_seconds, delay_seconds=outcome.delay_seconds,
                error=self._told(ending) if issubclass(type(ending), BaseException) and verdict_in(ending) is None else None,
            )
        )  # fmt: skip


def _ending_of(request: Request, ending: Any) -> object:
    """How an attempt ends whose end was asked for. The ack turns an interrupted one into what was asked for."""
    if request.wanted != "fail":
        return Interrupted(request.message or "ended by an operator", asked_for=request.wanted)
    failure = FailedByHand(request.message or "failed by an operator")
    failure.__cause__ = ending if issubclass(type(ending), Exception) else None  # stays in the traceback
    return failure


def _cannot_be_judged(ending: object, error: BaseException) -> RuntimeError:
    kind = type(ending).__name__
    failure = RuntimeError(f"what it ended in, a {kind}, cannot be judged: {type(error).__name__}: {safe_str(error)}")
    failure.__cause__ = error
    return failure


def too_large(result: str | None, limit: int) -> str | None:
    """Why a result is not stored, or None."""
    size = 0 if result is None else len(result.encode())
    return f"too large: {size} bytes" if size > limit else None
