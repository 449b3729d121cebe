"""A private PostgreSQL for `embedded://`: found, initialised, started, shared between processes, stopped when nobody needs it."""

from asyncjobs.embedded.client import Server, start, start_sync
from asyncjobs.embedded.errors import (
    BinariesNotFound,
    DiskFull,
    EmbeddedError,
    FolderUnusable,
    OtherMajorVersion,
    ServerFailed,
    UnsupportedPlatform,
)

__all__ = [
    "BinariesNotFound",
    "DiskFull",
    "EmbeddedError",
    "FolderUnusable",
    "OtherMajorVersion",
    "Server",
    "ServerFailed",
    "UnsupportedPlatform",
    "start",
    "start_sync",
]
