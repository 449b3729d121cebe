"""Whom the server runs as. PostgreSQL refuses root, who therefore runs it as `nobody`; everybody else as themselves."""

import os
from dataclasses import dataclass
from typing import TypedDict

SERVER_USER = "nobody"


class RunAs(TypedDict):
    """Keyword arguments of `subprocess.Popen` that choose the user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


@dataclass(frozen=True, slots=True)
class Identity:
    """A user that programs can be run as."""

    uid: int
    gid: int
    is_other: bool = False  # than the user of this process, which then is root

    def run_as(self) -> RunAs:
        """How to run a program as this user."""
        if not self.is_other:
            return {"user": None, "group": None, "extra_groups": None}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, path: os.PathLike[str]) -> None:
        """Make this user the owner of the path."""
        if self.is_other:
            os.chown(path, self.uid, self.gid)


def server_identity() -> Identity:
    """Whom this process runs PostgreSQL as."""
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid())
    import pwd  # here, because Windows has none

    entry = pwd.getpwnam(SERVER_USER)
    return Identity(entry.pw_uid, entry.pw_gid, is_other=True)
