"""Behind a pooler that shares connections between transactions: no LISTEN, no statement cache, all promises."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.telemetry.events import ListenerFellBack
from asyncjobs.testing import Recorder
from tests.support.pgbouncer import pgbouncer

#: No statement lives longer than its transaction, and no start-up parameter is passed on.
TRANSACTION_POOLING = {"statement_cache_size": 0, "server_settings": dict[str, str]()}

pytestmark = pytest.mark.system


@pytest.fixture
async def pooled_dsn(dsn: str) -> AsyncGenerator[str]:
    async with pgbouncer(dsn) as through:
        yield through


async def test_jobs_run_and_the_runner_polls_after_one_warning(pooled_dsn: str, schema: str, recorder: Recorder) -> None:
    jobs = AsyncJobs(pooled_dsn, schema=schema, poll_interval=0.2, connect_kwargs=TRANSACTION_POOLING)

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    async with jobs.runner():
        handles = [await double.enqueue(number) for number in range(20)]
        assert [await handle.result(timeout=10) for handle in handles] == [2 * number for number in range(20)]
        await recorder.wait_for(ListenerFellBack)
    assert len(recorder.of(ListenerFellBack)) == 1


async def test_the_listener_goes_around_the_pooler(pooled_dsn: str, dsn: str, schema: str, recorder: Recorder) -> None:
    jobs = AsyncJobs(
        pooled_dsn, schema=schema, notify="listen", listen_dsn=dsn, poll_interval=300, connect_kwargs=TRANSACTION_POOLING
    )

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    async with jobs.runner():
        handles = [await double.enqueue(number) for number in range(20)]
        assert [await handle.result(timeout=10) for handle in handles] == [2 * number for number in range(20)]
    assert recorder.of(ListenerFellBack) == []
