"""A circuit breaker as users hold it: what `circuit_breaker(...)` gives. Which state it is in is its app's affair."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Final, final

from asyncjobs.declare.registry import Declarations
from asyncjobs.errors import CircuitOpen, ConfigurationError
from asyncjobs.model.breaker import MOST_PROBES, Policy
from asyncjobs.model.names import check_name, shown
from asyncjobs.model.outcome import VERDICTS, cause_of
from asyncjobs.open.current_app import Router, app_of_breaker, keeper
from asyncjobs.open.other_threads import check_may_block, wait_wherever
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.runtime.breakers import Breakers, Call, How


class _Entered:
    """One `async with`. `call` is None for one inside of another of the same breaker, which alone counts."""

    __slots__ = ("breaker", "breakers", "call", "is_open")

    def __init__(self, breaker: "CircuitBreaker", breakers: Breakers | None = None, call: Call | None = None) -> None:
        self.breaker = breaker
        self.breakers = breakers
        self.call = call
        self.is_open = True


#: What the current task has entered, and the tasks that it was started by.
_entered: ContextVar[tuple[_Entered, ...]] = ContextVar("asyncjobs_breakers_entered", default=())


@final
class CircuitBreaker(AbstractAsyncContextManager[None]):
    """Fails fast while a service is down: `async with breaker:` around each call of it, `with breaker.sync():` in a thread.

    Entering raises CircuitOpen when the breaker does not let the call through. An exception of the kinds that count, out of the
    block, is a failure of the service; any other Exception says that it answered, and is a success. A cancellation, and whatever
    else is no Exception, says nothing: put a timeout inside of the block, not around it.

    Inside of itself it does nothing: the outermost block counts, once. An app of which it is part has to be open: that of the
    current attempt, else the one that is open. NotOpen, NotIncluded and AmbiguousApp say what to write otherwise.
    """

    __slots__ = ("_router", "counts", "declared_at", "policy")

    def __init__(
        self, policy: Policy, counts: tuple[type[BaseException], ...], router: Router, *, declared_at: str = "unknown"
    ) -> None:
        self.policy = policy
        self.counts = counts
        self.declared_at = declared_at
        self._router = router

    def __repr__(self) -> str:
        return f"<CircuitBreaker {self.service!r}>"

    @property
    def service(self) -> str:
        """The service's name."""
        return self.policy.service

    async def __aenter__(self) -> None:
        if self._is_inside or self._is_in_memory:
            self._push(_Entered(self))
            return
        breakers = self._app().open_breakers(self._use)
        self._push(_Entered(self, breakers, await breakers.enter(self.service)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        entered = self._pop()
        if entered is not None and entered.call is not None and entered.breakers is not None:
            await entered.breakers.leave(entered.call, self._meaning_of(error))

    def sync(self) -> AbstractContextManager[None]:
        """The same for a plain `def` in another thread than the event loop's; WouldBlock in the loop's own."""
        return self._sync()

    @contextmanager
    def _sync(self) -> Generator[None]:
        if self._is_inside or self._is_in_memory:
            yield
            return
        app = self._app()
        awaited = self._awaited_in(app)
        breakers = app.breakers_in(self._use)
        call = awaited(lambda: breakers.enter(self.service))
        self._push(_Entered(self, breakers, call))
        how: How = "ended"
        try:
            yield
            how = "succeeded"
        except BaseException as error:
            how = self._meaning_of(error)
            raise
        finally:
            self._pop()
            awaited(lambda: breakers.leave(call, how))

    def _awaited_in(self, app: OwningApp) -> Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]:
        """What awaits something in the app's loop; WouldBlock in the loop's own thread."""
        what, call = "breaker.sync()", "async with breaker"
        if app.memory is not None:
            return partial(wait_wherever, app.memory.loop, call, what)
        loop = app.loop(self._use)
        check_may_block(loop, call, what=what)
        return lambda awaited: asyncio.run_coroutine_threadsafe(awaited(), loop).result()

    @property
    def _use(self) -> str:
        return f'circuit breaker "{self.service}" was used'

    def _app(self) -> OwningApp:
        return app_of_breaker(self, self._router)

    @property
    def _is_inside(self) -> bool:
        return any(one.breaker is self and one.is_open for one in _entered.get())

    @property
    def _is_in_memory(self) -> bool:
        """Whether jobs are kept in memory just now, by a test: without a database every call is let through."""
        kept = keeper.get()
        return kept is not None and kept.app is self._app()

    def _push(self, entered: _Entered) -> None:
        _entered.set((*_entered.get(), entered))

    def _pop(self) -> _Entered | None:
        stack = _entered.get()
        mine = next((one for one in reversed(stack) if one.breaker is self and one.is_open), None)
        if mine is not None:
            mine.is_open = False
            _entered.set(tuple(one for one in stack if one is not mine))
        return mine

    def _meaning_of(self, error: BaseException | None) -> How:
        if error is None:
            return "succeeded"
        if isinstance(error, VERDICTS):  # what it was raised for counts; by itself it says what one that is returned does
            return self._meaning_of(cause_of(error))
        if isinstance(error, CircuitOpen):  # another service's breaker, inside
            return "ended"
        if isinstance(error, self.counts):
            return "failed"
        return "succeeded" if isinstance(error, Exception) else "ended"


def breakers_of(declarations: Declarations) -> dict[str, CircuitBreaker]:
    """Every circuit breaker of a tree of routers, by service."""
    return {one.name: one.details["breaker"] for one in declarations.all_planned() if one.what == "circuit breaker"}


_COUNTS: Final = {"failure_threshold": 1_000_000, "success_threshold": 1_000_000, "probes": MOST_PROBES}


def check_breaker(policy: Policy, counts: object) -> tuple[type[BaseException], ...]:
    """What counts, and ConfigurationError when that or something else that was declared cannot be meant."""
    of = f'circuit breaker "{check_name("circuit breaker", policy.service)}": '
    for name, most in _COUNTS.items():
        value: object = getattr(policy, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"{of}{name}={value!r} must be a whole number of at least 1.")
        if value > most:
            raise ConfigurationError(f"{of}{name}={value:,} is out of range: give 1 to {most:,}.")
    if isinstance(counts, type):
        raise ConfigurationError(f"{of}counts={counts.__name__} is one class: write counts=({counts.__name__},).")
    if not isinstance(counts, tuple) or not counts:
        raise ConfigurationError(f"{of}counts={shown(counts)} is no tuple of exceptions: write counts=(OSError, TimeoutError).")
    wrong = [one for one in counts if not (isinstance(one, type) and issubclass(one, BaseException))]
    if wrong:
        raise ConfigurationError(f"{of}counts= has {shown(wrong[0])}, which is no class of exceptions.")
    return counts
