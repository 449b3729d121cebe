"""What a soak needs while it goes on: memory of its processes, and connections; and whether they are flat."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

_MIB: Final = 1 << 20
#: A process may grow by so little a job, or by so little in all, for what allocators do: one of 45 MiB grew by 20 bytes a job
#: over 170,000 jobs, with nothing allocated that was not freed. A list that keeps each job's id takes 40 bytes a job.
_BYTES_A_JOB: Final = 36.0
_LEAST_MIB: Final = 2.0
#: A session's caches are full when it has executed each statement; this is for how old the sessions happen to be at the looks.
_SESSION_MIB: Final = 1.5
#: Sockets that come when they are first needed have come by the second quarter. How many connections there are in all goes up and
#: down with the runners that are killed, and are not counted before they are back.
_MORE_SOCKETS: Final = {"runner": 2, "client": 5}
#: What three runners and the process that enqueues may have.
_MOST_CONNECTIONS: Final = 3 * 9 + 4
_FEWEST_LOOKS: Final = 20


class Sample(msgspec.Struct, frozen=True):
    """One look."""

    done: int  # jobs, so far
    runner_mib: float  # of the runner that is never killed
    client_mib: float  # of the process that enqueues
    server_mib: float  # of the sessions of asyncjobs, what is shared apart
    connections: int  # of asyncjobs
    runner_sockets: int  # of that runner
    client_sockets: int  # of the process that enqueues, with those of the proxy in front of that runner


def resident_mib(pid: int) -> float:
    """What the process has in memory; 0 when it is gone."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:")


def private_mib(pid: int) -> float:
    """The same, what it shares with others apart."""
    return _field(Path(f"/proc/{pid}/status"), "RssAnon:")


def sockets(pid: int | str) -> int:
    """How many the process has; 0 when it is gone."""
    count = 0
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                count += str(file.readlink()).startswith("socket:")
    return count


def trimmed_mib() -> float:
    """What this process has in memory, apart from what it has freed and its allocator has not given back."""
    ctypes.CDLL(None).malloc_trim(0)
    return resident_mib(os.getpid())


def _field(path: Path, name: str) -> float:
    try:
        line = next(line for line in path.read_text().splitlines() if line.startswith(name))
    except (OSError, StopIteration):
        return 0.0
    return int(line.split()[1]) * 1024 / _MIB


def growth(samples: Sequence[Sample]) -> list[str]:
    """What grew from the second quarter of the samples to the last, or why that cannot be told: none, when all of it is flat."""
    if len(samples) < _FEWEST_LOOKS:
        return [f"{len(samples)} looks are too few to tell whether anything grew"]
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    found = [*_of_processes(early, late)]
    before, after = (median(one.server_mib / max(one.connections, 1) for one in part) for part in (early, late))
    if after > before + _SESSION_MIB:
        found.append(f"a session of the server grew from {before:.1f} to {after:.1f} MiB")
    after = median(one.connections for one in late)
    if after > _MOST_CONNECTIONS:
        found.append(f"{after:.0f} connections are more than {_MOST_CONNECTIONS}")
    return found


def _of_processes(early: Sequence[Sample], late: Sequence[Sample]) -> Iterator[str]:
    jobs = median(one.done for one in late) - median(one.done for one in early)
    most = max(_LEAST_MIB, jobs * _BYTES_A_JOB / _MIB)
    for name, more in _MORE_SOCKETS.items():
        before, after = (median(getattr(one, f"{name}_sockets") for one in part) for part in (early, late))
        if after > before + more:
            yield f"connections of the {name} grew from {before:.0f} to {after:.0f}"
    for name in ("runner", "client"):
        before, after = (median(getattr(one, f"{name}_mib") for one in part) for part in (early, late))
        if after > before + most:
            rate = (after - before) * _MIB / max(jobs, 1)
            yield f"the {name} grew from {before:.1f} to {after:.1f} MiB: {rate:.0f} bytes a job"


def table(samples: Sequence[Sample]) -> str:
    """Ten of them, to be read."""
    step = max(1, len(samples) // 10)
    lines = ["      jobs  runner MiB  client MiB  server MiB  connections"]
    return "\n".join([*lines, *map(_line, samples[::step]), *map(_line, samples[-1:])])


def _line(sample: Sample) -> str:
    mib = "".join(f"  {value:10.1f}" for value in (sample.runner_mib, sample.client_mib, sample.server_mib))
    return f"{sample.done:10,}{mib}  {sample.connections:11}"
