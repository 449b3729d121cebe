"""Operators' verbs that note what is asked of them, and do nothing: no database is needed."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from unittest.mock import ANY

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.admin import Admin
from asyncjobs.errors import StateError
from asyncjobs.model.audit import Actor

#: Whatever was given.
SOMETHING = ANY


class Notes:
    """The calls of verbs, in order: the name, positional arguments, and keyword arguments without those that are None."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []  # of the verbs of `jobs.admin`: who used them
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def only(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The one call."""
        (call,) = self.calls
        return call


def noted(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> Notes:
    """Let every verb note its call, and answer with what is given; the others raise StateError. Opening connects to nothing."""
    notes = Notes()

    def note(name: str) -> Any:
        async def verb(self: object, *args: Any, **kwargs: Any) -> Any:
            notes.actors += [self.actor] if isinstance(self, Admin) else []
            notes.calls.append((name, args, {key: value for key, value in kwargs.items() if value is not None}))
            if name in answers:
                return answers[name]
            raise StateError(f"{name} was asked for.")

        return verb

    async def nothing(*args: object) -> None: ...

    for name in dir(Admin):
        if not name.startswith("_") and name != "acting":
            monkeypatch.setattr(Admin, name, note(name))
    monkeypatch.setattr(Admin, "noting", lambda *_: nullcontext([]))
    monkeypatch.setattr(AsyncJobs, "enqueue", note("enqueue"))
    monkeypatch.setattr(AsyncJobs, "__aenter__", nothing)
    monkeypatch.setattr(AsyncJobs, "__aexit__", nothing)
    return notes
