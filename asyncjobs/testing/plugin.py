"""The pytest plugin: fixtures that give a test a database of its own. It comes with asyncjobs, idle until one is asked for.

| fixture | scope | what it is |
|---|---|---|
| `asyncjobs_server` | session | the DSN of a server: $ASYNCJOBS_TEST_DSN, else an embedded one. Override it for another |
| `asyncjobs_databases` | session | makes databases on it (`Databases`) |
| `asyncjobs_schema` | session | the schema's name, "asyncjobs". Override it when your app has another |
| `asyncjobs_dsn` | function | the DSN of a new database in which the schema is migrated; dropped after the test |

None of them is asynchronous, so they serve tests under pytest-asyncio, under anyio's plugin (with the asyncio backend), and
plain ones.
"""

from collections.abc import Generator

import pytest

from asyncjobs.testing.databases import Databases, databases
from asyncjobs.testing.server import server


@pytest.fixture(scope="session")
def asyncjobs_server() -> Generator[str]:
    """The DSN of the server that tests run on. Its role may create databases."""
    with server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def asyncjobs_databases(asyncjobs_server: str) -> Generator[Databases]:
    """The session's databases; all of them are gone at its end."""
    with databases(asyncjobs_server) as made:
        yield made


@pytest.fixture(scope="session")
def asyncjobs_schema() -> str:
    """The schema that is migrated in each test's database."""
    return "asyncjobs"


@pytest.fixture
def asyncjobs_dsn(asyncjobs_databases: Databases, asyncjobs_schema: str) -> Generator[str]:
    """The DSN of the test's own database, migrated and empty: for `override(jobs, dsn=asyncjobs_dsn)`."""
    with asyncjobs_databases.fresh(asyncjobs_schema) as dsn:
        yield dsn
