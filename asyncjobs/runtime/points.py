"""Named points at the awaits of the protocols, where tests make things go wrong or look on.

No program installs a hook in production: there a point costs the look at one global.

    if points.active:
        await points.reach("finish.sent")
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

Hook = Callable[[str], Awaitable[None]]

active = False
_hook: Hook | None = None


async def reach(name: str) -> None:
    """Let the hook act at the point `name`. What it raises is raised here, as if the operation at this point had failed so."""
    if _hook is not None:
        await _hook(name)


@contextmanager
def installed(hook: Hook) -> Generator[None]:
    """Call `hook` at each point reached meanwhile."""
    global active, _hook
    active, _hook = True, hook
    try:
        yield
    finally:
        active, _hook = False, None
