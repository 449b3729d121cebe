"""Several hosts in a DSN: the primary is found, however the others fail."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import asyncpg
import pytest

from asyncjobs.store.hosts import Hosts, hosts_of
from tests.support.eventually import eventually, patience

HOSTS = "postgresql://u:p@a:1,b:2/jobs"
READ_WRITE = "target_session_attrs=read-write"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgresql://u:p@a:1/jobs", {"a:1": "postgresql://u:p@a:1/jobs"}),
        ("postgresql:///jobs?host=/run", {"": "postgresql:///jobs?host=/run"}),
        (
            HOSTS,
            {"a:1": f"postgresql://u:p@a:1/jobs?{READ_WRITE}", "b:2": f"postgresql://u:p@b:2/jobs?{READ_WRITE}"},
        ),
        (
            "postgresql://a,b/jobs?target_session_attrs=any",
            {"a": "postgresql://a/jobs?target_session_attrs=any", "b": "postgresql://b/jobs?target_session_attrs=any"},
        ),
        (
            "postgresql:///jobs?host=a,b&port=1,2&sslmode=require",
            {
                "a:1": f"postgresql://a:1/jobs?{READ_WRITE}&sslmode=require",
                "b:2": f"postgresql://b:2/jobs?{READ_WRITE}&sslmode=require",
            },
        ),
        (
            "postgresql:///jobs?host=a,b&port=5",
            {"a:5": f"postgresql://a:5/jobs?{READ_WRITE}", "b:5": f"postgresql://b:5/jobs?{READ_WRITE}"},
        ),
        ("postgresql:///jobs?host=/run/a,/run/b", {"": "postgresql:///jobs?host=/run/a,/run/b"}),
    ],
)
def test_a_dsn_is_taken_apart_into_its_hosts_and_asks_for_the_primary(given: str, expected: dict[str, str]) -> None:
    assert hosts_of(given) == expected


class Connected:
    def __init__(self, host: str) -> None:
        self.host = host
        self.dropped_in: threading.Thread | None = None

    @property
    def is_dropped(self) -> bool:
        return self.dropped_in is not None

    def terminate(self) -> None:
        self.dropped_in = threading.current_thread()


class Network:
    """What each host does: accept, refuse with an error, or (None) be silent."""

    def __init__(self, **hosts: Exception | bool | None) -> None:
        self.hosts = hosts
        self.asked: list[str] = []
        self.dropped: list[str] = []

    async def attempt(self, dsn: str) -> Connected:
        host = dsn.rpartition("@")[2][0]
        self.asked.append(host)
        try:
            while self.hosts[host] is None:
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.dropped.append(host)
            raise
        answer = self.hosts[host]
        if isinstance(answer, Exception):
            raise answer
        return Connected(host)


REFUSED = ConnectionRefusedError("refused")
STANDBY = asyncpg.TargetServerAttributeNotMatched("none of the hosts match")


def connect(hosts: Hosts[Connected], network: Network) -> Coroutine[Any, Any, Connected]:
    return hosts.connect(network.attempt)


@pytest.fixture
def hosts() -> Hosts[Connected]:
    return Hosts(HOSTS, head_start_seconds=0.01)


async def test_the_next_host_is_asked_when_one_refuses(hosts: Hosts[Connected]) -> None:
    network = Network(a=STANDBY, b=True)
    assert (await connect(hosts, network)).host == "b"
    assert network.asked == ["a", "b"]


async def test_the_next_host_is_asked_when_one_is_silent_which_is_let_go(hosts: Hosts[Connected]) -> None:
    network = Network(a=None, b=True)
    async with patience(5):
        assert (await connect(hosts, network)).host == "b"
    assert network.dropped == ["a"]


async def test_the_host_that_accepted_is_asked_first_the_next_time(hosts: Hosts[Connected]) -> None:
    network = Network(a=REFUSED, b=True)
    await connect(hosts, network)
    network.hosts["a"] = True
    assert (await connect(hosts, network)).host == "b"
    assert network.asked == ["a", "b", "b"]


async def test_a_standby_that_is_promoted_is_found_while_the_primary_is_silent(hosts: Hosts[Connected]) -> None:
    network = Network(a=None, b=STANDBY)
    connecting = asyncio.create_task(connect(hosts, network))
    await eventually(lambda: network.asked.count("b") > 1, description="the standby is asked again")
    network.hosts["b"] = True
    async with patience(5):
        assert (await connecting).host == "b"
    assert network.asked.count("a") == 1


async def test_a_slow_primary_is_waited_for(hosts: Hosts[Connected]) -> None:
    network = Network(a=None, b=STANDBY)
    connecting = asyncio.create_task(connect(hosts, network))
    await eventually(lambda: "b" in network.asked, description="the standby is asked")
    network.hosts["a"] = True
    async with patience(5):
        assert (await connecting).host == "a"


async def test_all_refusals_are_told(hosts: Hosts[Connected]) -> None:
    with pytest.raises(ConnectionError) as caught:
        await connect(hosts, Network(a=REFUSED, b=STANDBY))
    assert str(caught.value) == "no host accepts (a:1: refused; b:2: it is a standby, or read-only)"


async def test_what_does_not_pass_by_itself_is_raised_as_it_is(hosts: Hosts[Connected]) -> None:
    wrong = asyncpg.InvalidPasswordError("wrong password")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await connect(hosts, Network(a=wrong, b=STANDBY))


async def test_a_cancelled_connect_leaves_nothing_behind(hosts: Hosts[Connected]) -> None:
    network = Network(a=None, b=None)
    connecting = asyncio.create_task(connect(hosts, network))
    await eventually(lambda: len(network.asked) == 2, description="both are asked")
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert sorted(network.dropped) == ["a", "b"]


async def test_connections_to_the_host_before_are_dropped_in_their_own_loops(hosts: Hosts[Connected]) -> None:
    network = Network(a=True, b=True)
    here = await connect(hosts, network)
    connected = threading.Event()

    async def there() -> Connected:
        other = await connect(hosts, network)
        connected.set()
        await eventually(lambda: other.is_dropped, description="the connection of the other loop is dropped")
        assert other.dropped_in is threading.current_thread()
        return other

    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, there()))
    await eventually(connected.is_set, description="the other loop has connected")
    assert not here.is_dropped
    network.hosts["a"] = REFUSED
    new = await connect(hosts, network)
    await elsewhere
    await eventually(lambda: here.is_dropped, description="the connection of this loop is dropped")
    assert here.dropped_in is threading.current_thread()
    assert new.host == "b"
    assert not new.is_dropped
