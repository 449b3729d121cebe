"""What a helper is pointed at: an app, or the database itself."""

from asyncjobs.app import AsyncJobs
from asyncjobs.store.database import Database


def database_of(target: Database | AsyncJobs) -> Database:
    """Where the jobs are. NotOpen for an app on embedded:// that was not opened."""
    return target.lifecycle.database() if isinstance(target, AsyncJobs) else target
