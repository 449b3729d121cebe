"""A soak says that memory and connections are flat only where they are."""

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


def test_what_allocators_do_is_flat() -> None:
    assert growth(looks(lambda done: {"runner": 45.0 + mib(done, 20), "client": 60.0 + mib(done, 30)})) == []


def test_what_came_at_the_start_or_goes_at_the_end_is_flat() -> None:
    assert growth(looks(lambda done: {"connections": 9 if done < 20_000 else 25 if done < 150_000 else 16})) == []


@pytest.mark.parametrize("name", ["runner", "client"])
def test_forty_bytes_that_are_kept_of_each_job_are_found(name: str) -> None:
    (found,) = growth(looks(lambda done: {name: 45.0 + mib(done, 40)}))
    assert found.startswith(f"the {name} grew from")
    assert found.endswith(": 40 bytes a job")


def test_connection_that_is_left_behind_every_twenty_five_thousand_jobs_is_found() -> None:
    assert growth(looks(lambda done: {"sockets": 9 + done // 50_000})) == []
    assert growth(looks(lambda done: {"sockets": 9 + done // 25_000})) == [
        "connections of the runner grew from 12 to 16",
        "connections of the client grew from 23 to 31",
    ]


def test_more_connections_than_all_may_have_are_found_even_if_they_are_flat() -> None:
    assert growth(looks(lambda _: {"connections": 32})) == ["32 connections are more than 31"]


def test_sessions_that_grow_are_found() -> None:
    assert growth(looks(lambda done: {"session": 4.0 + mib(done, 20)})) == ["a session of the server grew from 5.4 to 7.3 MiB"]


def test_a_few_looks_do_not_show_that_it_is_flat() -> None:
    assert growth(looks(lambda _: {}, count=19)) == ["19 looks are too few to tell whether anything grew"]
