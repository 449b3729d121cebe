"""Parents and children as trees, whatever is written on the rows."""

from datetime import UTC, datetime
from typing import Any

from asyncjobs.model.job import Job
from asyncjobs.model.tree import Node, trees

NOW = datetime.now(UTC)


def a_job(id: int, parent: int | None = None) -> Job:
    times: dict[str, Any] = {"scheduled_at": NOW, "run_at": NOW, "created_at": NOW, "updated_at": NOW}
    return Job(id=id, type="t", status="pending", queue="q", parent_job_id=parent, **times)


def shape(nodes: list[Node]) -> list[object]:
    return [node.job.id if not node.children else (node.job.id, shape(node.children)) for node in nodes]


def test_children_are_below_their_parents_in_the_order_of_their_ids() -> None:
    assert shape(trees([a_job(5, 2), a_job(1), a_job(3, 1), a_job(2, 1), a_job(4)])) == [(1, [(2, [5]), 3]), 4]


def test_job_whose_parent_is_not_among_them_is_a_root() -> None:
    assert shape(trees([a_job(2, 99), a_job(3, 2)])) == [(2, [3])]


def test_cycles_end() -> None:
    assert shape(trees([a_job(1, 1)])) == [1]
    assert shape(trees([a_job(1, 3), a_job(2, 1), a_job(3, 2)])) == [(1, [(2, [3])])]
    assert shape(trees([a_job(1, 2), a_job(2, 1), a_job(3, 1), a_job(4)])) == [4, (1, [2, 3])]


def test_what_is_too_deep_is_counted_and_no_root() -> None:
    [root] = trees([a_job(1), *(a_job(number, number - 1) for number in range(2, 8))], depth=3)
    [second] = root.children
    [third] = second.children
    assert (third.children, third.hidden) == ([], 1)


def test_long_chain_is_cut_before_it_exhausts_the_stack() -> None:
    chain = [a_job(1), *(a_job(number, number - 1) for number in range(2, 5_000))]
    assert len(trees(chain, depth=100_000)) == 1
