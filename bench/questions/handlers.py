"""How many jobs a second are run whose handlers call a local HTTP server, compute for 5 ms, or commit with SQLAlchemy?"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from bench.lab import Lab
from bench.programs import FLOOR, OURS, Contender

WORKLOADS = "W18"


@asynccontextmanager
async def _receiver() -> AsyncGenerator[str]:
    """The address of a server that answers each POST at once."""

    async def receive(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def ask(lab: Lab) -> None:
    async with _receiver() as address:
        for case, work, count in (
            ("HTTP call", f"http {address}", lab.size(3_000, 30)),
            ("5 ms of CPU", "cpu", lab.size(1_000, 10)),
            ("SQLAlchemy transaction", "sqlalchemy", lab.size(3_000, 30)),
        ):

            async def measure(contender: Contender, work: str = work, count: int = count) -> Mapping[str, float]:
                async with lab.database(contender, {"do": "fill", "count": count}) as dsn:
                    return {"jobs/s": (await lab.drain(contender, dsn, count, concurrency=50, work=work)).per_second}

            await lab.compare("W18", case, measure, [OURS, FLOOR])
