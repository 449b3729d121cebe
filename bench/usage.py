"""What processes of this machine have used: CPU and memory."""

import psutil  # type: ignore[import-untyped]

from bench.server import Connection


class Usage:
    """Of one process, and of those that it started if it is asked for them."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    @classmethod
    async def of_server(cls, connection: Connection) -> "Usage":
        """Of PostgreSQL's first process; the server must be on this machine."""
        said: str = await connection.fetchval("SELECT pg_read_file('postmaster.pid')")
        return cls(int(said.split("\n", 1)[0]))

    def memory_mb(self) -> float:
        """What it holds resident."""
        return float(self._process.memory_info().rss) / 2**20

    def cpu_seconds(self) -> float:
        """Its own, since its start."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def family_cpu_seconds(self) -> float:
        """With that of its children, those that have ended included."""
        times = self._process.cpu_times()
        total = float(times.user + times.system + times.children_user + times.children_system)
        for child in self._process.children():
            try:
                of_child = child.cpu_times()
            except psutil.NoSuchProcess:
                continue  # it counts with those that have ended from now on
            total += of_child.user + of_child.system
        return total
