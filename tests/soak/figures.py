"""What a soak needs while it goes on: memory of its processes, and connections; and whether they are flat."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

_MIB: Final = 1 << 20
#: A process at its second million may hold so much more than at its first: what allocators and caches do.
_SLACK: Final = 1.25
_SLACK_MIB: Final = 24.0


class Sample(msgspec.Struct, frozen=True):
    """One look."""

    done: int  # jobs, so far
    runner_mib: float  # of the runner that is never killed
    client_mib: float  # of the process that enqueues
    server_mib: float  # of the sessions of asyncjobs, what is shared apart
    connections: int  # of asyncjobs


def resident_mib(pid: int) -> float:
    """What the process has in memory; 0 when it is gone."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:")


def private_mib(pid: int) -> float:
    """The same, what it shares with others apart."""
    return _field(Path(f"/proc/{pid}/status"), "RssAnon:")


def _field(path: Path, name: str) -> float:
    try:
        line = next(line for line in path.read_text().splitlines() if line.startswith(name))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) * 1024 / _MIB


def growth(samples: Sequence[Sample]) -> list[str]:
    """What grew from the second quarter of the samples to the last: none, when all of it is flat."""
    quarter = len(samples) // 4
    if quarter < 2:
        return []
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    found: list[str] = []
    for name in ("runner_mib", "client_mib", "server_mib", "connections"):
        before, after = (median(getattr(sample, name) for sample in part) for part in (early, late))
        if after > before * _SLACK + _SLACK_MIB:
            found.append(f"{name} grew from {before:.0f} to {after:.0f}")
    return found


def table(samples: Sequence[Sample]) -> str:
    """Ten of them, to be read."""
    step = max(1, len(samples) // 10)
    lines = ["      jobs  runner MiB  client MiB  server MiB  connections"]
    return "\n".join([*lines, *map(_line, samples[::step]), *map(_line, samples[-1:])])


def _line(sample: Sample) -> str:
    mib = "".join(f"  {value:10.1f}" for value in (sample.runner_mib, sample.client_mib, sample.server_mib))
    return f"{sample.done:10,}{mib}  {sample.connections:11}"
