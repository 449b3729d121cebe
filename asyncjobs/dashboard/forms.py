"""What requests bring, as values: query strings and forms. What cannot be meant is BadInput, in words for the one who sent it."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from asyncjobs.dashboard.problems import BadInput, Refused
from asyncjobs.dashboard.web import Request

_MOST_BYTES: Final = 256 << 10
_MOST_FIELDS: Final = 2_000
_MOST_CHARACTERS: Final = 4_096
_LARGEST_ID: Final = (1 << 63) - 1
_MOST_SECONDS: Final = 1e9
_AGO: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MOST_PERMITS: Final = 1 << 31
_DEEPEST: Final = 20  # fields within fields


class Fields:
    """Names and texts, in the order in which they came. An empty text was not given; blanks stay, since keys may have them."""

    def __init__(self, encoded: str) -> None:
        if len(encoded) > _MOST_BYTES:
            raise Refused(413, "That is too much for one request.")
        try:
            pairs = parse_qsl(encoded, max_num_fields=_MOST_FIELDS, errors="strict")
        except (ValueError, UnicodeDecodeError):
            raise BadInput("The fields of this request are too many, or no text.") from None
        self.pairs = pairs
        for name, text in self.pairs:
            if "\0" in text or "\0" in name or len(text) > _MOST_CHARACTERS:
                raise BadInput(f"{name!a:.40}: a text has at most {_MOST_CHARACTERS} characters, and no NUL.")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def known(self, names: Sequence[str]) -> "Fields":
        """Itself; BadInput for a field that is none of these. A misspelt filter must not find everything."""
        for name, _ in self.pairs:
            if name not in names:
                raise BadInput(f"There is no {name!a:.40} here, but {', '.join(names) or 'nothing'}.")
        return self

    def many(self, name: str) -> list[str]:
        """All texts of this name."""
        return [text for other, text in self.pairs if other == name]

    def text(self, name: str) -> str | None:
        """The text, or None; BadInput when there are several."""
        found = self.many(name)
        if len(found) > 1:
            raise BadInput(f"{name} was given {len(found)} times.")
        return found[0] if found else None

    def needed(self, name: str) -> str:
        """The text; BadInput without."""
        found = self.text(name)
        if found is None:
            raise BadInput(f"{name} is missing.")
        return found

    def flag(self, name: str) -> bool:
        """Whether it was given."""
        return self.text(name) is not None

    def choice(self, name: str, known: Sequence[str]) -> str | None:
        """The text, which is one of these, or None."""
        text = self.text(name)
        if text is not None:
            self.check(name, text, known)
        return text

    @staticmethod
    def check(name: str, text: str, known: Sequence[str]) -> None:
        """BadInput for a text that is none of these."""
        if text not in known:
            raise BadInput(f"{name}: there is no {text!a:.40}, but {', '.join(known)}.")

    def id(self, name: str) -> int | None:
        """An id, or None."""
        text = self.text(name)
        return None if text is None else an_id(text, name)

    def ids(self, name: str) -> list[int]:
        """All ids of this name."""
        return [an_id(text, name) for text in self.many(name)]

    def seconds(self, name: str) -> float | None:
        """A positive number of seconds, or None."""
        text = self.text(name)
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number < _MOST_SECONDS:
            raise BadInput(f"{name}: a number of seconds, as 60.")
        return number

    def permits(self, name: str) -> float | None:
        """How many may run at once; "none": any number."""
        text = self.text(name)
        if text == "none":
            return inf
        if text is not None and not (text.isascii() and text.isdigit() and 0 < int(text) < _MOST_PERMITS):
            raise BadInput(f"{name}: a number of jobs above 0, or none.")
        return None if text is None else int(text)

    def instant(self, name: str) -> datetime | None:
        """An instant, UTC when no zone is said; or how long ago it was, as 15m, 1h, 2d."""
        text = self.text(name)
        if text is None:
            return None
        ago = _AGO.fullmatch(text.strip())
        if ago is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise BadInput(f"{name}: how long ago, as 15m, 1h, 2d, or an instant, as 2027-01-31T12:00+01:00.") from None
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def an_id(text: str, what: str = "id") -> int:
    """An id as the database has them; BadInput."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST_ID)) and 0 < int(text) <= _LARGEST_ID):
        raise BadInput(f"{what}: {text!a:.40} is no id. Ids are whole numbers, as 4711.")
    return int(text)


async def form_of(request: Request) -> Fields:
    """The fields of a form that was sent; Refused when it is none, or too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "Verbs are sent as forms: application/x-www-form-urlencoded.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise Refused(413, "That is too much for one form.")
    try:
        return Fields(body.decode("ascii"))
    except UnicodeDecodeError:
        raise BadInput("This form is not encoded as forms are.") from None


def payload_filter(text: str) -> dict[str, Any]:
    """What a payload has to contain: a JSON object, or `field=value`, `outer.inner=value`. BadInput.

    A value is JSON if it can be (`7`, `true`, `"7"`), else a text.
    """
    found: Any
    text = text.strip()
    if text.startswith("{"):
        found = _json(text)
    else:
        path, equals, value = text.partition("=")
        names = [name.strip() for name in path.split(".")]
        if not equals or not all(names) or len(names) > _DEEPEST:
            raise BadInput(
                'payload: a field and its value, as to=ada@example.com, or a JSON object, as {"to": "ada@example.com"}.'
            )
        found = _value(value.strip())
        for name in reversed(names):
            found = {name: found}
    if not isinstance(found, dict) or "\\u0000" in msgspec.json.encode(found).decode():
        raise BadInput("payload: a JSON object, in which no text has a NUL.")
    return found


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"payload is no JSON object: {error}.") from None
