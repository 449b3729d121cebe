"""Found first on the path of every program that a test starts while the whole suite goes through a pooler: so do they."""

from contextlib import suppress

with suppress(ImportError):  # a Python without the project
    from tests.support.pooled import follow_the_environment

    follow_the_environment()
