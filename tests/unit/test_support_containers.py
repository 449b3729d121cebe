"""What can be tried of a PostgreSQL in a container without an engine for containers."""

import os
import subprocess
import sys
from typing import Any, ClassVar, Self

import psycopg
import pytest
from testcontainers.community import postgres

from tests.support.server import SETTINGS, running_server


class Container:
    """As testcontainers' own, with the tests' server in place of a container's."""

    dsn: ClassVar[str] = ""
    started: ClassVar[list[tuple[str, Any, list[str]]]] = []

    def __init__(self, image: str, driver: str | None) -> None:
        self.image, self.driver = image, driver

    def with_command(self, command: list[str]) -> Self:
        self.started.append((self.image, self.driver, command))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.started.append(("ended", None, []))

    def get_connection_url(self) -> str:
        return self.dsn


def test_the_container_has_the_tests_settings_and_is_made_fast_and_ends_with_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server() as dsn:
        monkeypatch.setattr(Container, "dsn", dsn)
        monkeypatch.setattr(Container, "started", [])
        monkeypatch.setattr(postgres, "PostgresContainer", Container)
        monkeypatch.setenv("ASYNCJOBS_TEST_POSTGRES", "testcontainers")
        monkeypatch.setenv("ASYNCJOBS_TEST_IMAGE", "postgres:14")
        with running_server() as contained, psycopg.connect(contained, autocommit=True) as connection:
            assert contained == dsn
            cursor = connection.execute(
                "SELECT setting FROM pg_file_settings WHERE name = 'fsync' AND sourcefile LIKE '%auto.conf'"
            )
            assert cursor.fetchone() == ("off",)
        [(image, driver, command), ended] = Container.started
        assert (image, driver, command[0]) == ("postgres:14", None, "postgres")
        assert {f"{name}={value}" for name, value in SETTINGS.items()} == set(command[2::2])
        assert ended[0] == "ended"


def test_without_an_engine_it_says_so_and_where_one_is_looked_for() -> None:
    command = (sys.executable, "-m", "tests.support.containers")
    done = subprocess.run(
        command, env={**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "no engine for containers answers" in done.stderr
    assert "DOCKER_HOST" in done.stderr
