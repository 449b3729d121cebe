"""Whether a call of the database is under way, for those who must know that it is over."""

import asyncio


class UnderWay:
    """One at a time: `with under_way:` around the call."""

    def __init__(self) -> None:
        self._is_so = False
        self._over: asyncio.Event | None = None  # while somebody waits for it

    def __bool__(self) -> bool:
        return self._is_so

    def __enter__(self) -> None:
        self._is_so = True

    def __exit__(self, *error: object) -> None:
        self._is_so = False
        if self._over is not None:
            self._over.set()
            self._over = None

    async def wait_over(self) -> None:
        """Wait until the call that is under way now, if there is one, has ended. Its caller goes on first."""
        if self._is_so:
            over = self._over = self._over or asyncio.Event()
            await over.wait()
