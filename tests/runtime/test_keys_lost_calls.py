"""Keys of a runner whose calls are lost."""

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.runtime import points
from asyncjobs.testing import Recorder


@pytest.mark.parametrize("point", ["enqueue.send", "enqueue.sent", "finish.send", "finish.sent", "advance.send", "advance.sent"])
async def test_key_goes_on_when_a_call_of_a_runner_is_lost(point: str, dsn: str, recorder: Recorder) -> None:
    """Before or after the server did it: every third call at this point ends in a broken connection."""
    app = AsyncJobs(dsn, queues=[Queue("default", concurrency=4)], sweep_interval=0.1, runner_timeout=2, heartbeat=0.5)
    ran: list[tuple[int, int]] = []

    @app.job("work", serialize_by="key {key}")
    async def work(key: int, number: int) -> None:
        ran.append((key, number))

    calls = 0

    async def hook(name: str) -> None:
        nonlocal calls
        if name == point:
            calls += 1
            if calls % 3 == 1 and calls < 30:
                raise ConnectionError("lost")

    with points.installed(hook):
        async with app.runner():
            handles = [await work.enqueue(key, number) for number in range(4) for key in range(4)]
            for handle in handles:
                await handle.wait(timeout=30)
    firsts = list(dict.fromkeys(ran))
    assert [number for key, number in firsts if key == 0] == [0, 1, 2, 3]
    assert sorted(firsts) == [(key, number) for key in range(4) for number in range(4)]
