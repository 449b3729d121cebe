"""The tree of parents and children among jobs. Rows may name any parents, in cycles, too: the tree is bounded all the same."""

from collections.abc import Iterable
from typing import Final

import msgspec

from asyncjobs.model.job import Job

_DEEPEST: Final = 200


class Node(msgspec.Struct, frozen=True):
    """A job and those that it enqueued."""

    job: Job
    children: "list[Node]"
    hidden: int = 0  # children that are not shown: too deep


def trees(jobs: Iterable[Job], *, depth: int = 20) -> list[Node]:
    """The jobs as trees, in the order of their ids; roots are those whose parent is not among them.

    Of a cycle the job with the lowest id is taken for the root. Children below `depth` are counted and not shown.
    """
    by_id = {job.id: job for job in sorted(jobs, key=lambda job: job.id)}
    children: dict[int, list[Job]] = {}
    for job in by_id.values():
        if job.parent_job_id in by_id and job.parent_job_id != job.id:
            children.setdefault(job.parent_job_id, []).append(job)
    depth = min(depth, _DEEPEST)
    seen: set[int] = set()

    def grow(job: Job, left: int) -> Node:
        seen.add(job.id)
        below = [child for child in children.get(job.id, []) if child.id not in seen]
        if left <= 1:
            _mark(below, children, seen)
            return Node(job, [], hidden=len(below))
        grown = [grow(child, left - 1) for child in below if child.id not in seen]
        return Node(job, grown)

    roots = [job for job in by_id.values() if job.parent_job_id not in by_id]
    found = [grow(job, depth) for job in roots]
    found += [grow(job, depth) for job in by_id.values() if job.id not in seen]
    return found


def _mark(jobs: list[Job], children: dict[int, list[Job]], seen: set[int]) -> None:
    """Note these and all below them, so that they are no roots."""
    pending = list(jobs)
    while pending:
        job = pending.pop()
        if job.id not in seen:
            seen.add(job.id)
            pending += children.get(job.id, [])
