"""Jobs inside an aiohttp app: `setup` starts and stops the runner with the app; handlers find the jobs under a typed key.

Run it with `python examples/aiohttp_app.py`.
"""

import asyncio
from collections.abc import AsyncGenerator

from aiohttp import ClientSession, web

from asyncjobs import AsyncJobs
from asyncjobs.integrations.aiohttp import JOBS, setup

STOCK: web.AppKey[dict[str, int]] = web.AppKey("stock")
jobs = AsyncJobs("embedded://")
app = web.Application()


@jobs.job("aiohttp.reserve")
async def reserve(item: str, count: int) -> int:
    """Take items off the stock; what is left is the result."""
    app[STOCK][item] -= count
    return app[STOCK][item]


async def order(request: web.Request) -> web.Response:
    """Enqueue by the job's name, as a module does that does not import its handler."""
    handle = await request.app[JOBS].enqueue("aiohttp.reserve", await request.json())
    return web.json_response({"left": await handle.result(timeout=10)}, status=201)


async def stock(app: web.Application) -> AsyncGenerator[None]:
    """A resource that handlers use. It was registered before `setup`, so it is cleaned up after the runner stopped."""
    app[STOCK] = {"tea": 10}
    yield
    app[STOCK].clear()


app.router.add_post("/orders", order)
app.cleanup_ctx.append(stock)
setup(app, jobs)


async def main() -> None:
    """Be the server and its client."""
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with ClientSession(f"http://127.0.0.1:{port}") as client:
        answers = [await (await client.post("/orders", json={"item": "tea", "count": n})).json() for n in (3, 4)]
    await runner.cleanup()
    print(answers)
    assert answers == [{"left": 7}, {"left": 3}]


if __name__ == "__main__":
    asyncio.run(main())
