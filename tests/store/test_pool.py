"""A pool that was closed leaves no connection behind, whoever is using it."""

import asyncio

import pytest

from asyncjobs.errors import NotOpen
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.pool import Pool


async def test_connection_that_is_being_opened_when_the_pool_is_closed_is_closed_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, may_go_on = asyncio.Event(), asyncio.Event()
    connect = Database.connect

    async def slow(self: Database, role: str, *, command_timeout: float | None = None) -> Connection:
        connecting.set()
        await may_go_on.wait()
        return await connect(self, role, command_timeout=command_timeout)

    monkeypatch.setattr(Database, "connect", slow)
    pool = Pool(database, 1)

    async def use() -> object:
        async with pool.take() as link:
            return await link.fetch_row("own_backend")

    using = asyncio.create_task(use())
    await connecting.wait()
    await pool.close()
    may_go_on.set()
    assert await using is not None
    assert not pool._all[0].is_open
    with pytest.raises(NotOpen):
        await use()


async def test_link_that_is_used_on_after_the_close_of_its_pool_keeps_no_connection(database: Database) -> None:
    pool = Pool(database, 1)
    async with pool.take() as link:
        await link.fetch_row("own_backend")
        await pool.close()
        await link.fetch_row("own_backend")  # a call of several statements
    assert not link.is_open
