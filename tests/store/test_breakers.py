"""The row of a circuit breaker: what several processes, and operators, do to it."""

import msgspec

from asyncjobs.model.breaker import Asked, Circuit, Event, Failed, Opened, Policy, Reset, Succeeded
from asyncjobs.store import breakers
from tests.support.peers import Peers, spawn

POLICY = Policy(service="smtp", failure_threshold=10, success_threshold=2, probes=1, open_seconds=60.0)


async def test_failures_that_are_reported_at_once_all_count(pair: Peers) -> None:
    await breakers.declare(pair.a.link, ["smtp"])
    signature = "happen_to_breaker(text, text, bigint, float8, text, integer, integer, integer, float8)"
    await pair.admin.execute(f"ALTER FUNCTION asyncjobs.{signature} SET lock_timeout = '30s'")
    async with pair.admin.transaction():  # both come as far as the row
        await pair.admin.execute("SELECT FROM asyncjobs.circuit_breakers FOR UPDATE")
        reports = [spawn(breakers.happen(peer.link, Failed(), POLICY)) for peer in (pair.a, pair.b)]
        await pair.waits_for_lock(pair.a)
        await pair.waits_for_lock(pair.b)
    counts = {(await report).seen.circuit.failure_count for report in reports}
    assert counts == {1, 2}


async def test_breaker_that_was_opened_in_sql_while_it_tried_begins_to_try_anew(pair: Peers) -> None:
    """What a probe of before found out, and the room that it takes, is over."""
    await pair.admin.execute(
        "INSERT INTO asyncjobs.circuit_breakers (service_name, state, half_opens_at) VALUES ('smtp', 'open', now())"
    )
    await breakers.happen(pair.a.link, Asked(1), POLICY)
    await breakers.happen(pair.a.link, Succeeded(1), POLICY)
    await breakers.happen(pair.a.link, Asked(2), POLICY)
    await pair.admin.execute("UPDATE asyncjobs.circuit_breakers SET state = 'open', half_opens_at = now()")
    assert await now(pair, Asked(3)) == ("half-open", 0, [3])
    assert await now(pair, Succeeded(2)) == ("half-open", 0, [3])
    assert await now(pair, Succeeded(3)) == ("half-open", 1, [])


async def test_nothing_of_a_trial_is_left_when_it_is_over(pair: Peers) -> None:
    policy = msgspec.structs.replace(POLICY, probes=3, open_seconds=0.0)
    ends: list[tuple[Event, str]] = [(Failed(2), "open"), (Succeeded(2), "closed"), (Reset(), "closed"), (Opened(0.0), "open")]
    for end, state in ends:
        await breakers.happen(pair.a.link, Opened(0.0), policy)
        for event in (Asked(1), Asked(2), Asked(3), Succeeded(1)):
            await breakers.happen(pair.a.link, event, policy)
        circuit = (await breakers.happen(pair.a.link, end, policy)).seen.circuit
        assert (circuit.state, circuit.failure_count, circuit.success_count, circuit.probes) == (state, 0, 0, ()), end


async def now(pair: Peers, event: Asked | Succeeded) -> tuple[str, int, list[int]]:
    circuit: Circuit = (await breakers.happen(pair.b.link, event, POLICY)).seen.circuit
    return circuit.state, circuit.success_count, [token for token, _ in circuit.probes]
