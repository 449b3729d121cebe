"""The context that attempts begin with says nothing of any attempt."""

from structlog.contextvars import get_contextvars, merge_contextvars

from asyncjobs.context import current
from asyncjobs.runtime.blank_context import BLANK, running


def test_nothing_is_bound_in_it() -> None:
    context = BLANK.copy()
    assert context.run(get_contextvars) == {}
    assert context.run(merge_contextvars, None, "info", {"event": "e"}) == {"event": "e"}
    assert (context.run(current.get), context.run(running.get)) == (None, None)
