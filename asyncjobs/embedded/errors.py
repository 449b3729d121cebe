"""What may go wrong with a private PostgreSQL. A message names the folder or the value, and what to do about it."""

from asyncjobs.errors import AsyncJobsError, ConfigurationError, DatabaseUnavailable


class EmbeddedError(AsyncJobsError):
    """The private PostgreSQL could not be started."""


class UnsupportedPlatform(EmbeddedError, ConfigurationError):
    """This system lacks what the private PostgreSQL needs: `fcntl` (Windows has none)."""


class BinariesNotFound(EmbeddedError, ConfigurationError):
    """PostgreSQL's binaries are in none of the four places."""


class OtherMajorVersion(EmbeddedError, ConfigurationError):
    """The data folder belongs to another major version of PostgreSQL than the binaries. Nothing was changed."""


class OtherSettings(EmbeddedError, ConfigurationError):
    """The server is up for somebody who asked for other settings."""


class FolderUnusable(EmbeddedError, ConfigurationError):
    """The folder is somebody else's, cannot be reached by the server's user, or is damaged. Nothing in it was changed."""


class DiskFull(EmbeddedError, DatabaseUnavailable):
    """The folder's file system has no space left. What was there before is untouched."""


class ServerFailed(EmbeddedError, DatabaseUnavailable):
    """PostgreSQL or its supervisor did not start; the message says what they said last."""
