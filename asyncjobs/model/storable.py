r"""Texts that others wrote - an exception's, a handler's note - as the database takes them.

1. What PostgreSQL cannot hold, a NUL or a lone surrogate, is shown by its escape (`\x00`, `\ud800`); nothing is left out.
2. What is longer than its column's limit is cut between characters, and a sign "…" says where.
3. What the database's encoding does not have (LATIN1) is shown by its escape, too, once the database has refused it: `in_ascii`.
4. An exception whose `str()` raises anything, SystemExit too, is told as what that was: `safe_str`.
"""

from typing import Final

_SIGN: Final = "…"
_SIGN_BYTES: Final = len(_SIGN.encode())


def safe_str(value: object) -> str:
    """Its text; of one whose `__str__` raises anything at all, what that was."""
    try:
        return str(value)
    except BaseException as failure:  # noqa: BLE001 - a user's __str__ may raise anything, SystemExit included
        return f"<str() of {type(value).__name__} failed: {type(failure).__name__}>"


def storable(text: str) -> str:
    """The text with escapes for what PostgreSQL cannot hold."""
    return _bytes(text).decode()


def in_ascii(text: str) -> str:
    """The text in letters that every database can hold."""
    return storable(text).encode("ascii", errors="backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of the text, with a sign at the end if that is not all of it."""
    raw = _bytes(text[: limit + 1])
    if len(raw) <= limit and len(text) <= limit:
        return raw.decode()
    return raw[: max(limit - _SIGN_BYTES, 0)].decode(errors="ignore") + _SIGN


def cut_front(text: str, limit: int) -> str:
    """At most the last `limit` bytes of the text, with a sign at the beginning if that is not all of it."""
    raw = _bytes(text[-limit - 1 :] if limit > 0 else "")
    if len(raw) <= limit:
        return raw.decode()
    return _SIGN + raw[-max(limit - _SIGN_BYTES, 0) :].decode(errors="ignore") if limit > _SIGN_BYTES else ""


def _bytes(text: str) -> bytes:
    return text.replace("\x00", "\\x00").encode(errors="backslashreplace")
