"""A service that is down is left alone: calls fail fast, jobs wait and keep their attempts, one finds out when it is back.

Run it with `python examples/circuit_breaker.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, CircuitOpen

jobs = AsyncJobs("embedded://")
sms = jobs.circuit_breaker("breaker.sms", failure_threshold=3, open_for=1, counts=(OSError, TimeoutError))
is_down = True
calls: list[str] = []


async def send(to: str) -> None:
    """Call the service, which is down for a while."""
    async with sms, asyncio.timeout(5):  # the timeout inside: one that comes from outside does not count
        await call_service(to)


async def call_service(to: str) -> None:
    """Stands for a request over the network."""
    await asyncio.sleep(0)
    calls.append(to)
    if is_down:
        raise ConnectionError("no answer")


@jobs.job("breaker.text", breaker="breaker.sms")
async def text(to: str) -> str:
    """Not even claimed while the breaker of its service is open."""
    await send(to)
    return f"texted {to}"


@jobs.job("breaker.alarm", max_attempts=1)
async def alarm(to: str) -> str:
    """Claimed, and snoozed while it is open: it has one attempt, and keeps it."""
    await send(to)
    return f"alarmed {to}"


async def main() -> None:
    """Let the service fail, and come back."""
    global is_down  # noqa: PLW0603 - stands for the world outside
    async with jobs.runner():
        await jobs.admin.reset_breaker("breaker.sms")  # this may not be the first run
        for number in range(3):
            try:
                await send(f"customer {number}")
            except ConnectionError as error:
                print(f"customer {number}: {error}")
        try:
            await send("customer 3")
        except CircuitOpen as refusal:
            print(f"customer 3: refused, {refusal.service} is not called")

        texts = [await text.enqueue(name) for name in ("Ada", "Eve", "Joe")]
        alarmed = await alarm.enqueue("Kim")
        while not (waiting := await jobs.get(alarmed.id)) or not waiting.snoozes:  # noqa: ASYNC110 - a row has no event
            await asyncio.sleep(0.01)
        print(f"alarm: {waiting.status}, attempts={waiting.attempts}")
        print("while it was open:", calls)

        is_down = False
        print([await handle.result(timeout=20) for handle in texts], await alarmed.result(timeout=20))

        await jobs.admin.open_breaker("breaker.sms", for_=600, reason="the provider works on it")
        [state] = [one for one in await jobs.admin.breakers() if one.service == "breaker.sms"]
        print(state.state, "because", state.reason)
        await jobs.admin.reset_breaker("breaker.sms")


if __name__ == "__main__":
    asyncio.run(main())
