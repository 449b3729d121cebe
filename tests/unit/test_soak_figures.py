"""A soak says that memory and connections are flat only where they are."""

import re
from collections.abc import Callable

import pytest

from tests.soak.figures import Sample, growth


def looks(change: Callable[[int], dict[str, float]], count: int = 200) -> list[Sample]:
    """So many looks, 1,000 jobs apart; `change` tells what is different after so many jobs."""

    def look(done: int) -> Sample:
        is_now = {"runner": 45.0, "client": 60.0, "session": 4.0, "connections": 18.0, "sockets": 9.0} | change(done)
        connections, sockets = int(is_now["connections"]), int(is_now["sockets"])
        session = is_now["session"]
        return Sample(done, is_now["runner"], is_now["client"], session * connections, connections, sockets, 2 * sockets)

    return [look(done) for done in range(0, count * 1000, 1000)]


def mib(done: int, bytes_a_job: float) -> float:
    return done * bytes_a_job / (1 << 20)


CASES: dict[str, tuple[Callable[[int], dict[str, float]], list[str]]] = {
    "what allocators do": (lambda done: {"runner": 45.0 + mib(done, 20), "client": 60.0 + mib(done, 30)}, []),
    "at the start, and gone at the end": (
        lambda done: {"connections": 9 if done < 20_000 else 25 if done < 150_000 else 16}, [],
    ),
    "40 bytes a job": (lambda done: {"runner": 45.0 + mib(done, 40)}, ["the runner grew from .*: 40 bytes a job"]),
    "40 bytes an enqueue": (lambda done: {"client": 45.0 + mib(done, 40)}, ["the client grew from .*: 40 bytes a job"]),
    "a connection every 50,000 jobs": (lambda done: {"sockets": 9 + done // 50_000}, []),
    "a connection every 25,000 jobs": (
        lambda done: {"sockets": 9 + done // 25_000},
        ["connections of the runner grew from 12 to 16", "connections of the client grew from 23 to 31"],
    ),
    "more than all may have": (lambda _: {"connections": 32}, ["32 connections are more than 31"]),
    "sessions": (lambda done: {"session": 4.0 + mib(done, 20)}, ["a session of the server grew from 5.4 to 7.3 MiB"]),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CASES.values(), ids=CASES)
def test_growth_is_told_from_what_comes_and_goes(change: Callable[[int], dict[str, float]], expected: list[str]) -> None:
    found = growth(looks(change))
    assert len(found) == len(expected)
    assert all(re.fullmatch(pattern, one) for pattern, one in zip(expected, found, strict=True)), found


def test_a_few_looks_do_not_show_that_it_is_flat() -> None:
    assert growth(looks(lambda _: {}, count=19)) == ["19 looks are too few to tell whether anything grew"]
