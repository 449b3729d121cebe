"""What may go wrong with a private PostgreSQL, each with what to do about it. None of these passes by trying again."""

AsyncJobsError = Exception


class EmbeddedError(AsyncJobsError):
    """The private PostgreSQL could not be started; the message names the folder and the remedy."""


class UnsupportedPlatform(EmbeddedError):
    """This system lacks what the private PostgreSQL needs (`fcntl`: Windows)."""


class BinariesNotFound(EmbeddedError):
    """No PostgreSQL binaries in any of the four places."""


class OtherMajorVersion(EmbeddedError):
    """The data folder belongs to another major version of PostgreSQL than the binaries."""


class FolderUnusable(EmbeddedError):
    """The folder cannot be used: not ours, not reachable by the server's user, or damaged. Nothing in it was changed."""


class DiskFull(EmbeddedError):
    """The file system of the folder has no space left. What was there before is untouched."""


class ServerFailed(EmbeddedError):
    """PostgreSQL or its supervisor ended while starting; the message ends with the last lines of its log."""
