"""A claim takes no job whose payload is newer than its runner knows, by whichever way it is made."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Probe, Scan
from asyncjobs.store import jobs
from asyncjobs.store.database import Database
from tests.support.factories import insert_job
from tests.support.peers import TYPES, Peers, peers


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    """The first peer knows version 1 of everything, the second one 3 of email."""
    async with peers(database) as made:
        await made.admin.execute("UPDATE asyncjobs.runners SET versions = '{\"email\": 3}' WHERE id = 2")
        yield made
        await made.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE status = 'processing'")
        await made.admin.execute("UPDATE asyncjobs.jobs SET version = 1")
        await made.admin.execute("UPDATE asyncjobs.serialized_jobs SET version = 1")
        await made.drain()


@pytest.mark.parametrize(("lane", "rescues"), [(None, 0), ("fast", 0), (None, 1)], ids=["general", "lane", "rescued"])
async def test_scan_passes_over_what_is_too_new(world: Peers, lane: str | None, rescues: int) -> None:
    found: dict[int, list[int]] = {}
    for version in (4, 3, 2, 1):
        await insert_job(world.admin, version=version, lane="fast", rescues=rescues)
    for peer in (world.a, world.b, world.b):
        finished = await jobs.finish(
            peer.link, peer.runner_id, [], [Scan("default", lane, 10)], TYPES,
            rescued=True, token_base=peer.runner_id, token_seq=len(found) * 10, max_errors=10,
        )  # fmt: skip
        found.setdefault(peer.runner_id, []).extend(job.version for job in finished.claimed)
    assert found == {1: [1], 2: [3, 2]}


async def test_probe_passes_over_what_is_too_new(world: Peers) -> None:
    for version in (2, 1):
        await insert_job(world.admin, version=version)
    finished = await jobs.finish(
        world.a.link, 1, [], [Scan("default", None, 10)], [],
        rescued=False, token_base=1, token_seq=1, max_errors=10, probes=[Probe(("email",), 1)],
    )  # fmt: skip
    assert [job.version for job in finished.claimed] == [1]


async def test_lean_scan_passes_over_what_is_too_new(world: Peers) -> None:
    for version in (4, 3, 1):
        await insert_job(world.admin, version=version)
    for peer, versions in ((world.a, [1]), (world.b, [3])):
        assert [job.version for job in (await peer.complete_all([], limit=10)).claimed] == versions


@pytest.mark.parametrize(("runner", "version", "starts"), [("a", 1, True), ("a", 2, False), ("b", 3, True), ("b", 4, False)])
async def test_keys_next_job_starts_only_where_its_version_is_known(
    world: Peers, runner: str, version: int, *, starts: bool
) -> None:
    peer = world.a if runner == "a" else world.b
    await peer.enqueue()
    second = await peer.enqueue(version=version)
    answer = await peer.complete(await peer.claim_one())
    assert [job.id for job in answer.claimed] == ([second] if starts else [])
    assert await world.line() == [(second, "processing" if starts else "pending")]
