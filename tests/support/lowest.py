"""The lowest versions that pyproject.toml allows, pinned: `python -m tests.support.lowest` prints them for pip.

What is only there to check the code (types, style) or to run the tests is taken as it is; so is what asyncjobs merely starts.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
#: Extras that asyncjobs imports something of.
_EXTRAS: Final = ("fastapi", "aiohttp", "sqlalchemy", "psycopg", "cli", "dashboard", "metrics", "otel", "sentry", "uvloop")
_BOUND: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+(\[[\w,]+\])?)>=(?P<version>[\w.]+)")


def lowest() -> list[str]:
    """`name==version` of every library that asyncjobs imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in _EXTRAS for one in project["optional-dependencies"][extra])]
    return [_pinned(requirement) for requirement in wanted]


def _pinned(requirement: str) -> str:
    bound = _BOUND.match(requirement)
    if bound is None:
        raise ValueError(f"{requirement} has no lower bound")
    return f"{bound['name']}=={bound['version']}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest()) + "\n")
