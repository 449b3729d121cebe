"""A verb: what it asks before it is done, what it does, and how that is told. (`jobs.admin` writes down who did it.)"""

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

BACK: Final = "back"
SURE: Final = "sure"


class Deed:
    """A verb that somebody uses now, on what the form names."""

    def __init__(self, visit: Visit, form: Fields) -> None:
        self.visit = visit
        self.form = form

    @property
    def admin(self) -> Admin:
        """The verbs, used by who sent the form, for the reason that it gives. `jobs.admin` writes that down and tells it."""
        return self.visit.admin.acting(self.by, why=self.form.text("message") or self.form.text("reason"), via="dashboard")

    @property
    def by(self) -> str:
        """Who does it."""
        return self.visit.viewer.name if self.visit.viewer is not None else "nobody"


class Outcome(msgspec.Struct, frozen=True):
    """What came of it."""

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

    async def perform(self, visit: Visit, form: Fields) -> Response:
        """Ask, or do it, and go back with what came of it. A form that was answered says `sure`."""
        form.known([*self.fields, csrf.FIELD, BACK, SURE])
        deed = Deed(visit, form)
        if self.ask is not None and not form.flag(SURE):
            question = await self.ask(deed)
            if question is not None:
                return self._asked(visit, form, question)
        try:
            outcome = await self.do(deed)
        finally:
            visit.site.news.forget()
        to = form.text(BACK) if outcome.to is None else outcome.to
        return visit.back(to, say=outcome.said, kind="good" if outcome.is_change else "same")

    def _asked(self, visit: Visit, form: Fields, question: Question) -> Response:
        if csrf.is_program(visit.request):
            raise Refused(409, question.text if question.nothing else f"{question.text} Send {SURE}=1 to do it.")
        fields = [(name, text) for name, text in form if name not in {csrf.FIELD, SURE}]
        return visit.page(
            "question.html", question=question, fields=fields, action=f"/do/{self.name}", back=form.text(BACK) or "/"
        )


def counted(outcomes: Mapping[Any, int]) -> str:
    """How many came to which outcome."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())) or "nothing"


def tally(outcomes: list[str]) -> dict[str, int]:
    """How often each occurs."""
    return dict(Counter(outcomes))
