"""A claim takes no job whose payload is newer than its runner knows, by whichever way it is made."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Probe, Scan
from asyncjobs.store import jobs
from asyncjobs.store.database import Database
from tests.support.claims import SUSPECT
from tests.support.factories import insert_job
from tests.support.peers import TYPES, Peers, peers


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    """The first peer knows version 1 of everything, the second one 3 of email."""
    async with peers(database) as made:
        await made.admin.execute("UPDATE asyncjobs.runners SET versions = '{\"email\": 3}' WHERE id = 2")
        yield made
        await end_all(made)


async def end_all(pair: Peers) -> None:
    """Run what is left, whatever its version."""
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE status = 'processing'")
    await pair.admin.execute("UPDATE asyncjobs.jobs SET version = 1")
    await pair.drain()


async def test_scan_passes_over_what_is_too_new(pair: Peers) -> None:
    """Of general slots and of a lane's, and of suspects, which are claimed one by one."""
    token_seq = 1_000
    for lane, suspect in ((None, {}), ("fast", {}), (None, SUSPECT)):
        found: dict[int, list[int]] = {}
        for version in (4, 3, 2, 1):
            await insert_job(pair.admin, version=version, lane="fast", **suspect)
        for peer in (pair.a, pair.b, pair.b):
            token_seq += 10
            finished = await jobs.finish(
                peer.link, peer.runner_id, [], [Scan("default", lane, 10)], TYPES,
                suspects=[True], token_base=peer.runner_id, token_seq=token_seq, max_errors=10,
            )  # fmt: skip
            found.setdefault(peer.runner_id, []).extend(job.version for job in finished.claimed)
        assert found == {1: [1], 2: [3, 2]}, (lane, suspect)
        await end_all(pair)


async def test_probe_passes_over_what_is_too_new(pair: Peers) -> None:
    for version in (2, 1):
        await insert_job(pair.admin, version=version)
    finished = await jobs.finish(
        pair.a.link, 1, [], [Scan("default", None, 10)], [],
        suspects=[False], token_base=1, token_seq=1, max_errors=10, probes=[Probe(("email",), 1)],
    )  # fmt: skip
    assert [job.version for job in finished.claimed] == [1]


async def test_lean_scan_passes_over_what_is_too_new(pair: Peers) -> None:
    for version in (4, 3, 1):
        await insert_job(pair.admin, version=version)
    for peer, versions in ((pair.a, [1]), (pair.b, [3])):
        assert [job.version for job in (await peer.complete_all([], limit=10)).claimed] == versions


async def test_keys_next_job_starts_only_where_its_version_is_known(pair: Peers) -> None:
    for peer, version, starts in ((pair.a, 1, True), (pair.a, 2, False), (pair.b, 3, True), (pair.b, 4, False)):
        await peer.enqueue()
        second = await peer.enqueue(version=version)
        answer = await peer.complete(await peer.claim_one())
        assert [job.id for job in answer.claimed] == ([second] if starts else []), (peer.runner_id, version)
        assert await pair.line() == [(second, "processing" if starts else "pending")]
        await end_all(pair)
