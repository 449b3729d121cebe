"""Jobs as a tree in lines: each with how deep it stands. Rows may name any parents, in cycles, too: each job is shown once."""

from collections.abc import Sequence
from typing import Final

from asyncjobs.store.listing import JobRow

_DEEPEST: Final = 12  # that is drawn; what is below stands at that depth


def branches(jobs: Sequence[JobRow]) -> list[tuple[int, JobRow]]:
    """Depth and job, parents before their children, in the order of their ids; roots are those whose parent is not among them."""
    by_id = {job.id: job for job in sorted(jobs, key=lambda job: job.id)}
    children: dict[int, list[JobRow]] = {}
    for job in by_id.values():
        if job.parent_job_id in by_id:
            children.setdefault(job.parent_job_id, []).append(job)
    shown: dict[int, tuple[int, JobRow]] = {}
    roots = [job for job in by_id.values() if job.parent_job_id not in by_id]
    for root in (*roots, *by_id.values()):  # after the roots what is in a cycle
        pending = [(0, root)]
        while pending:
            depth, job = pending.pop()
            if job.id not in shown:
                shown[job.id] = min(depth, _DEEPEST), job
                pending += [(depth + 1, child) for child in reversed(children.get(job.id, []))]
    return list(shown.values())
