"""What an app is to its workflows."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import Events

T = TypeVar("T")


class FlowApp(OwningApp, Protocol):
    """The app that a workflow is written to."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Its queues."""
        ...

    @property
    def handlers(self) -> Mapping[str, Any]:
        """Its job types."""
        ...

    @property
    def events(self) -> Events:
        """What its sinks are told."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """How it is opened."""
        ...

    def opened_for(self, what: str) -> OpenApp:
        """The open app, for its own loop; NotOpen, WrongLoop in words that begin with `what`."""
        ...

    def wait_in_loop(self, happened: str, call: str, what: str, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What comes of it in the app's loop, for another thread. NotOpen, WouldBlock."""
        ...
