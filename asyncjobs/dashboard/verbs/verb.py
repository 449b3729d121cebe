"""A verb: what it asks before it is done, what it does, and how that is told to the one who did it and to the app's events."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.dashboard import csrf
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.problems import Refused
from asyncjobs.dashboard.visit import Visit
from asyncjobs.dashboard.web import Response
from asyncjobs.errors import AsyncJobsError
from asyncjobs.telemetry.events import VerbUsed

BACK: Final = "back"
SURE: Final = "sure"


class Deed:
    """A verb that somebody uses now, on what the form names."""

    def __init__(self, visit: Visit, form: Fields) -> None:
        self.visit = visit
        self.form = form

    @property
    def admin(self) -> Admin:
        """The verbs."""
        return self.visit.admin

    @property
    def by(self) -> str:
        """Who does it."""
        return self.visit.viewer.name if self.visit.viewer is not None else "nobody"

    def message(self, done: str) -> str:
        """What the record is to say: the form's `message`, and who did it."""
        given = self.form.text("message")
        return f"{given} ({done} by {self.by})" if given else f"{done} by {self.by}"


class Outcome(msgspec.Struct, frozen=True):
    """What came of it."""

    target: str  # what it was done to
    said: str  # in a sentence
    is_change: bool = True
    to: str | None = None  # the page to go on with, if it is not the one that the form names


class Question(msgspec.Struct, frozen=True):
    """What is asked before."""

    text: str
    yes: str  # the button
    details: list[str] = []
    nothing: bool = False  # there is nothing to do: no button


Do = Callable[[Deed], Awaitable[Outcome]]
Ask = Callable[[Deed], Awaitable[Question | None]]


class Verb(msgspec.Struct, frozen=True):
    """A verb. `ask` gives a question, or None where none has to be asked."""

    name: str
    do: Do
    fields: tuple[str, ...]
    ask: Ask | None = None
    tells: bool = True  # False: what `do` calls tells the events itself

    async def perform(self, visit: Visit, form: Fields) -> Response:
        """Ask, or do it, tell the events, and go back with what came of it. A form that was answered says `sure`."""
        form.known([*self.fields, csrf.FIELD, BACK, SURE])
        deed = Deed(visit, form)
        if self.ask is not None and not form.flag(SURE):
            question = await self.ask(deed)
            if question is not None:
                return self._asked(visit, form, question)
        try:
            outcome = await self.do(deed)
        except AsyncJobsError as error:
            self._tell(deed, "", outcome=type(error).__name__)
            raise
        finally:
            visit.site.news.forget()
        if self.tells:
            self._tell(deed, outcome.target, outcome=outcome.said)
        to = form.text(BACK) if outcome.to is None else outcome.to
        return visit.back(to, say=outcome.said, kind="good" if outcome.is_change else "same")

    def _tell(self, deed: Deed, target: str, *, outcome: str) -> None:
        deed.visit.site.jobs.events.emit(
            VerbUsed(verb=self.name.replace("/", "."), by=deed.by, target=target or _given(deed.form), outcome=outcome)
        )

    def _asked(self, visit: Visit, form: Fields, question: Question) -> Response:
        if csrf.is_program(visit.request):
            raise Refused(409, question.text if question.nothing else f"{question.text} Send {SURE}=1 to do it.")
        fields = [(name, text) for name, text in form if name not in {csrf.FIELD, SURE}]
        return visit.page(
            "question.html", question=question, fields=fields, action=f"/do/{self.name}", back=form.text(BACK) or "/"
        )


def _given(form: Fields) -> str:
    return ", ".join(f"{name}={text}" for name, text in form if name not in {csrf.FIELD, SURE, BACK})[:500]


def counted(outcomes: Mapping[Any, int]) -> str:
    """How many came to which outcome."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())) or "nothing"


def tally(outcomes: list[str]) -> dict[str, int]:
    """How often each occurs."""
    return dict(Counter(outcomes))
