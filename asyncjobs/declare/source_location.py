"""Where in the user's code something was declared, for messages."""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


def callers_frame() -> FrameType | None:
    """The nearest frame outside of asyncjobs."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module == _PACKAGE or module.startswith(_PACKAGE + ".")


def callers_place() -> str:
    """`file:line` of the user's code that is being run."""
    frame = callers_frame()
    return "unknown" if frame is None else f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def local_names_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The local names where the function was defined, if that is the user's code that is being run.

    A function of another place, declared here, means its own module's names, whatever is called the same here.
    """
    frame, body = callers_frame(), inspect.unwrap(function)
    if frame is None or "<locals>" not in getattr(body, "__qualname__", ""):
        return {}
    return frame.f_locals if getattr(body, "__globals__", None) is frame.f_globals else {}


def place_of(function: Callable[..., Any]) -> str:
    """`file:line` of the function; of the running declaration when it has no code of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return callers_place() if code is None else f"{short_path(code.co_filename)}:{code.co_firstlineno}"


def short_path(path: str) -> str:
    """The path from the current folder when it is below it, else as it is."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return path


def variable_of(thing: object) -> str | None:
    """`module.name` of a module's variable that holds the thing."""
    for module_name, module in list(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is thing:
                return name if module_name == "__main__" else f"{module_name}.{name}"
    return None
