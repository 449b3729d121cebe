"""What a workflow is built with in memory: nothing of it stays when it is written, or given up."""

import gc
from weakref import ref

import pytest

from asyncjobs import AsyncJobs, WorkflowError
from asyncjobs.workflow import Workflow

jobs = AsyncJobs("postgresql://nowhere/nothing")


@jobs.job("add")
async def add(number: int) -> int:
    return number + 1


def a_workflow(name: str = "adding") -> Workflow:
    return Workflow(name, jobs, connection=None, correlation_id=None, max_members=10)


def test_nothing_stays_in_memory_of_a_workflow_whose_jobs_take_results() -> None:
    flow = a_workflow()
    flow.add(add.new(flow.add(add.new(1)).result))
    planner = ref(flow.planner)
    del flow
    gc.collect()  # a handful of objects refer to each other
    assert planner() is None


def test_result_of_another_workflow_is_refused_by_both_names() -> None:
    result = a_workflow("first").add(add.new(1)).result
    with pytest.raises(WorkflowError, match=r'workflow "second": add takes .* which is of workflow "first": '):
        a_workflow("second").add(add.new(result))
