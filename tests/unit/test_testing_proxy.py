import asyncio
import time
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Proxy
from tests.support.eventually import eventually


@pytest.fixture
async def through(proxy: Proxy) -> AsyncGenerator[Connection]:
    connection = await Database(proxy.dsn, command_timeout=5).connect("finish")
    yield connection
    connection.terminate()


async def test_statements_pass_and_roles_are_known(proxy: Proxy, through: Connection) -> None:
    assert await through.fetchval("SELECT 40 + $1::int", 2) == 42
    assert [connection.role for connection in proxy.connections] == ["finish"]
    assert await through.fetchval("SELECT length($1::text)", "ä" * 200_000) == 200_000


@pytest.mark.matrix("loop")
@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_broken_connection_is_noticed_at_once_and_a_new_one_works(proxy: Proxy, through: Connection, how: str) -> None:
    getattr(proxy, how)("finish")
    with pytest.raises((OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
        await through.fetchval("SELECT 1")
    again = await Database(proxy.dsn).connect("finish")
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


@pytest.mark.matrix("loop")
async def test_a_black_hole_swallows_one_role_and_gives_back_what_it_held(proxy: Proxy, through: Connection) -> None:
    other = await Database(proxy.dsn).connect("listener")
    proxy.black_hole("finish")
    asked = asyncio.create_task(through.fetchval("SELECT 1"))
    assert await other.fetchval("SELECT 2") == 2
    assert not (await asyncio.wait([asked], timeout=0.2))[0]
    proxy.heal()
    assert await asked == 1
    await other.close()


async def test_a_silenced_connection_is_left_behind_by_a_new_one(proxy: Proxy, through: Connection) -> None:
    proxy.silence("finish")
    with pytest.raises(TimeoutError):
        await through.fetchval("SELECT 1", timeout=0.2)
    again = await Database(proxy.dsn).connect("finish")
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_a_black_hole_swallows_new_connections(proxy: Proxy) -> None:
    proxy.black_hole("listener")
    with pytest.raises(TimeoutError):
        await Database(proxy.dsn, connect_timeout=0.3).connect("listener")


async def test_delay_slows_answers_down(proxy: Proxy, through: Connection) -> None:
    await through.fetchval("SELECT 1")
    proxy.delay(0.15, "finish")
    began = time.monotonic()
    await through.fetchval("SELECT 1")
    assert time.monotonic() - began >= 0.15


@pytest.mark.matrix("loop")
async def test_a_dropped_response_leaves_the_effect_and_breaks_the_connection(
    proxy: Proxy, through: Connection, connection: Connection
) -> None:
    await connection.execute("CREATE TABLE public.effects (number int)")
    proxy.drop_next_response("finish")
    with pytest.raises((OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)):
        await through.execute("INSERT INTO public.effects VALUES ($1)", 7)
    assert await connection.fetchval("SELECT array_agg(number) FROM public.effects") == [7]
    await eventually(lambda: not proxy.connections, description="the broken connection is gone")


async def test_refused_roles_cannot_connect_until_it_heals(proxy: Proxy) -> None:
    proxy.refuse("heartbeat")
    with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
        await Database(proxy.dsn).connect("heartbeat")
    proxy.heal()
    await (await Database(proxy.dsn).connect("heartbeat")).close()
