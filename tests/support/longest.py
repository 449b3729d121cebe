"""Files that take longest come first: one that begins when all others are done is waited for by all workers.

Left to itself, the scheduler begins with the files that have most tests, and these are the quick ones.
"""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

#: From half a minute to ten seconds.
LONGEST: Final = (
    "test_examples", "documents/test_pages", "e2e/test_demo", "e2e/test_embedded", "typing/test_typing", "e2e/test_embedding",
    "hostile/test_soak", "hostile/test_simulation", "e2e/test_runner_death", "e2e/test_pytest_plugin", "documents/test_programs",
    "e2e/test_shutdown", "interleavings/test_interleavings", "e2e/test_pauses", "e2e/test_cost", "hostile/test_roles",
    "test_packaging", "store/test_serialization_races", "store/test_serialization_callers",
    "e2e/test_embedding_stop", "e2e/test_figures", "dashboard/test_cost", "dashboard/test_browser",
    "cli/test_program", "cli/test_demo", "e2e/test_idle_cost", "hostile/test_server_ends", "hostile/test_failover",
    "runtime/test_scheduler", "e2e/test_enqueue", "property/test_transitions",
    "e2e/test_schedules", "e2e/test_between_terms", "e2e/test_wakeups", "store/test_backlog",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The others keep their order."""
    places = {TESTS / f"{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
