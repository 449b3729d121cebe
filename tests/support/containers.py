"""A PostgreSQL in a container: where there is an engine for containers, the tests of the store run on it, too.

python -m tests.support.containers    says why there is none, and ends with 1; with 0 where there is one
"""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

IMAGE = "postgres:16"


def no_engine() -> str | None:
    """Why no container can be started; None where one can."""
    import docker  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    try:
        docker.from_env(timeout=5).ping()
    except DockerException as error:
        return f"no engine for containers answers (start one, or say where it is in DOCKER_HOST): {error}"
    return None


@contextmanager
def container(settings: Mapping[str, str]) -> Generator[str]:
    """The DSN of a superuser's connection to a new server with these settings, of the image that $ASYNCJOBS_TEST_IMAGE names."""
    from testcontainers.community.postgres import PostgresContainer

    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    image = os.environ.get("ASYNCJOBS_TEST_IMAGE", IMAGE)
    with PostgresContainer(image, driver=None).with_command(["postgres", *options]) as started:
        yield started.get_connection_url()


if __name__ == "__main__":
    sys.exit(no_engine())
