"""A private PostgreSQL for `embedded://`: found, initialised, shared between processes, and stopped when nobody needs it.

Three files in its folder are flocked, and the kernel drops a flock however its holder dies. That is the whole protocol:

1.  A client holds `clients.lock` shared from `start` to `close`, or to its death.
2.  A supervisor, one process per folder and nobody's child, holds `supervisor.lock` exclusively while it lives. It owns postgres.
3.  Whoever starts or stops the server holds `start.lock` exclusively. Processes that start at once therefore share one server.
4.  When there was no client for the linger time, the supervisor takes `start.lock` and `clients.lock`, stops postgres and ends.
    A client that comes meanwhile waits, then starts anew.
5.  initdb works in `data.new-…`, which becomes `data` when it is finished. What a killed one left is removed by the next start,
    and nothing else ever is.

What each kill leaves behind:

6.  A client: nothing. It is gone from `clients.lock`.
7.  The supervisor: postgres is told by its parent-death signal, and shuts down. Each client looks once a second, and they start
    another supervisor together. It waits for the old postgres to end, and takes the old port.
8.  The postmaster: the supervisor waits for its children to end and starts it again on the same port; a sixth time within a
    minute it gives up.
9.  All of them at once: a lock that nobody holds, a pid file that PostgreSQL knows to be stale, and data that it recovers.
10. SIGTERM to the supervisor stops the server in order, although it has clients; they start another.
11. The folder's removal ends the server at once.

The server listens on 127.0.0.1 only, on no unix socket, and asks for a SCRAM password that is kept with the data.
"""

from asyncjobs.embedded.client import Server, start, start_sync
from asyncjobs.embedded.errors import (
    BinariesNotFound,
    DiskFull,
    EmbeddedError,
    FolderUnusable,
    OtherMajorVersion,
    OtherSettings,
    ServerFailed,
    UnsupportedPlatform,
)

__all__ = [
    "BinariesNotFound",
    "DiskFull",
    "EmbeddedError",
    "FolderUnusable",
    "OtherMajorVersion",
    "OtherSettings",
    "Server",
    "ServerFailed",
    "UnsupportedPlatform",
    "start",
    "start_sync",
]
