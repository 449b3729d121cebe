"""Where the database is: DSNs as users have them, made into what asyncpg takes. Passwords never show."""

import os
import re
from typing import final
from urllib.parse import parse_qsl, urlsplit

from asyncjobs.errors import InvalidDSN, MissingDSN
from asyncjobs.model.names import kind_of

VARIABLE = "ASYNCJOBS_DSN"
MAX_PORT = 65_535
_SCHEMES = ("postgresql", "postgres")


@final
class Dsn:
    """A DSN that was checked. `text` is for asyncpg; `str()` and `repr()` mask the password."""

    __slots__ = ("folder", "is_embedded", "text")

    def __init__(self, text: str, *, is_embedded: bool = False, folder: str | None = None) -> None:
        self.text = text
        self.is_embedded = is_embedded
        self.folder = folder  # of a private PostgreSQL; None: the per-user default

    def __repr__(self) -> str:
        return f"Dsn({masked(self.text)!r})"

    def __str__(self) -> str:
        return masked(self.text)

    @property
    def place(self) -> str:
        """Host and port (the first, when there are several), for messages; `embedded` for a private PostgreSQL."""
        if self.is_embedded:
            return "embedded"
        hosts = urlsplit(self.text).netloc.rpartition("@")[2]
        return hosts or dict(parse_qsl(urlsplit(self.text).query)).get("host", "localhost")


def place_of(text: str) -> str:
    """Where a DSN leads, as host:port/database, without user, password and parameters."""
    return Dsn(text).place + "/" + urlsplit(text).path.strip("/")


def masked(text: str) -> str:
    """The text with `***` for whatever may be a password: the authority's, and that of a `password=` parameter."""
    scheme, separator, rest = text.partition("://")
    if separator:
        authority, slash, tail = _split_authority(rest)
        credentials, at, hosts = authority.rpartition("@")
        if at and ":" in credentials:
            credentials = credentials.partition(":")[0] + ":***"
        text = scheme + separator + credentials + at + hosts + slash + tail
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^&\s]+)", r"\1***", text)


def _split_authority(rest: str) -> tuple[str, str, str]:
    # A password may hold an unescaped "/" or "?" by mistake: the authority ends at the first of them after the last "@".
    at = rest.rfind("@") + 1
    match = re.search(r"[/?#]", rest[at:])
    if match is None:
        return rest, "", ""
    end = at + match.start()
    return rest[:end], rest[end], rest[end + 1 :]


def resolve_dsn(dsn: str | None) -> Dsn:
    """The DSN given, or else that of $ASYNCJOBS_DSN. MissingDSN when there is none, InvalidDSN when it cannot be used.

    `postgresql+asyncpg://` and `+psycopg` (SQLAlchemy's) are taken for `postgresql://`. `embedded://` is a private PostgreSQL in
    a per-user folder, `embedded:///folder` one in that folder.
    """
    if dsn is None:
        dsn = os.environ.get(VARIABLE) or None
    if dsn is None:
        raise MissingDSN(
            f'no DSN given and ${VARIABLE} is not set. Pass one, or AsyncJobs("embedded://") for a private PostgreSQL.'
        )
    return parse_dsn(dsn)


def parse_dsn(dsn: object) -> Dsn:
    """The DSN, checked without any I/O. InvalidDSN names what is wrong with it, never its password."""
    if not isinstance(dsn, str):
        raise InvalidDSN(f"the DSN is {kind_of(dsn)}, not a str.{_remedy_for(dsn)}")
    scheme, separator, rest = dsn.strip().partition("://")
    if not separator:
        raise InvalidDSN(f'the DSN "{_masked_text(dsn)}" does not begin with postgresql:// or embedded://.')
    if scheme == "embedded":
        return _embedded(rest)
    base = scheme.partition("+")[0]
    if base not in _SCHEMES or scheme.partition("+")[2] not in ("", "asyncpg", "psycopg", "psycopg2", "psycopg_async"):
        raise InvalidDSN(f'the DSN "{masked(dsn)}" begins with "{scheme}://": asyncjobs needs postgresql:// or embedded://.')
    text = f"{base}://{rest}"
    _check_parts(text)
    return Dsn(text)


def _remedy_for(dsn: object) -> str:
    if hasattr(dsn, "render_as_string"):
        return " Use engine.url.render_as_string(hide_password=False)."
    return " Pass a text such as postgresql://user:password@host/database."


def _masked_text(dsn: str) -> str:
    text = masked(dsn.strip())
    return re.sub(r":[^:@\s]*@", ":***@", text)


def _embedded(rest: str) -> Dsn:
    if not rest:
        return Dsn("embedded://", is_embedded=True)
    if not rest.startswith("/"):
        raise InvalidDSN(f'the DSN "embedded://{rest}" names no absolute folder: write embedded:///{rest} with three slashes.')
    if "\x00" in rest:
        raise InvalidDSN("the folder in the DSN has a NUL character.")
    return Dsn(f"embedded://{rest}", is_embedded=True, folder=rest)


def _check_parts(text: str) -> None:
    authority, slash, tail = _split_authority(text.partition("://")[2])
    credentials, _, hosts = authority.rpartition("@")
    if re.search(r"[/?#\s]", credentials):
        raise InvalidDSN(
            f'the user or password in the DSN "{masked(text)}" has a character that must be escaped: '
            'use urllib.parse.quote(password, safe="").'
        )
    if credentials.partition(":")[2] == "***":
        raise InvalidDSN(
            'the password in this DSN is "***": str(engine.url) hides it. Use engine.url.render_as_string(hide_password=False).'
        )
    for host in filter(None, hosts.split(",")):
        _check_port(text, host)
    if slash == "#" or "\x00" in tail:
        raise InvalidDSN(f'the DSN "{masked(text)}" does not parse: "#" or NUL where the database should be.')


def _check_port(text: str, host: str) -> None:
    port = host.rpartition("]")[2].partition(":")[2] if host.startswith("[") else host.partition(":")[2]
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise InvalidDSN(f'the DSN "{masked(text)}" has port "{port}": give a number from 1 to 65535.')
