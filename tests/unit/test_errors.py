"""The tree of errors: drawn as it is, with fields that survive pickling."""

import copy
import pickle
import re
from datetime import UTC, datetime
from typing import Any

import pytest

import asyncjobs
from asyncjobs import errors
from asyncjobs.model.job import Job

NOW = datetime.now(UTC)
JOB = Job(id=5, type="email", status="dead", queue="default", scheduled_at=NOW, run_at=NOW, created_at=NOW, updated_at=NOW)

MADE: list[errors.AsyncJobsError] = [
    errors.InvalidHandler("email", "no"),
    errors.InvalidName("no", name=5),
    errors.InvalidSchedule("nightly", "no"),
    errors.DuplicateName("job", "email", "a.py:1", "b.py:2"),
    errors.UnknownQueue("mial", ["mail"]),
    errors.UnknownLane("fsat", "mail", ["fast"]),
    errors.InvalidPayload("email", "no", path="$.to"),
    errors.PayloadTooLarge("email", 5, 4),
    errors.InvalidOption("no", option="delay"),
    errors.DuplicateJob("email", "w-1", 812, "processing"),
    errors.UnknownType("emial", ["email"]),
    errors.ScheduleNotFound("nigthly", ["nightly"]),
    errors.JobNotFound("no", job_id=5),
    errors.JobDied(JOB, "no"),
    errors.WaitTimeout("no", job_id=5),
    errors.DatabaseUnavailable("no"),
    errors.AttemptTimeout("no"),
    errors.CircuitOpen("no", retry_at=NOW),
    errors.UndecodablePayload("email", "no", path="$.to"),
]


def drawn() -> dict[str, str]:
    """Class name -> its parent's, as the module's docstring draws them."""
    found: dict[str, str] = {}
    line_of: dict[int, str] = {-1: "AsyncJobsError"}
    for line in (errors.__doc__ or "").splitlines():
        names = [name.partition("(")[0] for name in re.findall(r"\b[A-Z]\w+(?:\(\w+\))?", line.partition("    (")[0])]
        marker = re.search(r"[├└]", line)
        if marker is None:
            continue
        depth = marker.start()
        parent = line_of[max(above for above in line_of if above < depth)]
        found.update(dict.fromkeys((name for name in names if hasattr(errors, name)), parent))
        line_of = {above: name for above, name in line_of.items() if above < depth} | {depth: names[0]}
    return found


def test_the_tree_is_as_drawn() -> None:
    kinds = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.AsyncJobsError)
    }
    del kinds["AsyncJobsError"]
    parents = {name: kind.__bases__[0].__name__ for name, kind in kinds.items()}
    assert drawn() == parents


def test_every_error_is_exported_where_users_look() -> None:
    names = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
    assert names <= set(asyncjobs.__all__)


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying_with_its_fields(error: Any) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_job_that_failed_is_at_hand() -> None:
    error = errors.JobDied(JOB, "no")
    assert (error.job, error.job_id) == (JOB, 5)
    assert isinstance(errors.WaitTimeout("no", job_id=5), TimeoutError)
    assert isinstance(errors.DatabaseUnavailable("no"), ConnectionError)
    assert (
        str(errors.DuplicateJob("email", "w-1", 812, "processing"))
        == 'email "w-1" is job 812, processing (on_duplicate="raise").'
    )
