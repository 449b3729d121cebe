"""How values are shown to people. What comes from jobs is hostile: marks that turn the direction of text or hide in it become
visible, and what is large is cut. (Escaping is the templates' business: they escape everything.)
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from asyncjobs.model.status import in_words

#: Controls but for tab and line feed, marks and overrides of direction, what has no width, and halves of surrogate pairs.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0e\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_DATA_BYTES: Final = 20_000
_LINE_CHARACTERS: Final = 200

_SMALL: Final = 1e-3
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def seen(text: object, most: int | None = None) -> str:
    """The text with what cannot be seen made visible, and the end cut off if it is longer than `most`."""
    plain = str(text)
    cut = plain if most is None or len(plain) <= most else plain[: most - 1] + "…"
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", cut)


def line(text: object, most: int = _LINE_CHARACTERS) -> str:
    """The text in one line, for a cell of a table."""
    return seen(" ".join(str(text)[: most * 2].split()), most)


class Data(msgspec.Struct, frozen=True):
    """A JSON value as text over several lines, or its beginning if it is long."""

    text: str
    bytes: int
    is_cut: bool


def data(value: Any) -> Data:
    """The value for eyes."""
    encoded = msgspec.json.encode(value, enc_hook=str)
    pretty = msgspec.json.format(encoded, indent=2)
    start = pretty[: _DATA_BYTES * 2].decode(errors="ignore")[:_DATA_BYTES]
    return Data(seen(start), len(encoded), len(start.encode()) < len(pretty))


def seconds(value: float | timedelta | None) -> str:
    """A duration in the unit that suits it: 12 ms, 3.4 s, 5 min, 2 h, 3 d."""
    if value is None:
        return "–"
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if number < 0:
        return f"-{seconds(-number)}"
    if number < _SMALL:
        return "0 ms" if not number else "<1 ms"
    if number < 1:
        return f"{number * 1000:.0f} ms"
    for length, unit in _UNITS:
        if number >= length * 1.99:  # or 119.9 min
            return f"{number / length:.0f} {unit}"
    return f"{number:.1f} s" if number < 10 else f"{number:.0f} s"  # noqa: PLR2004 - two digits are enough


def age(instant: datetime | None) -> str:
    """How long ago, or in what time, by this process's clock: `5 min ago`, `in 3 s`."""
    if instant is None:
        return "–"
    passed = (datetime.now(UTC) - instant).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{seconds(passed)} ago" if passed > 0 else f"in {seconds(-passed)}"


def stamp(instant: datetime | None) -> str:
    """The instant, to the second, in UTC."""
    return "–" if instant is None else f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def number(value: float | None) -> str:
    """A number with its thousands apart."""
    return "–" if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share of 1 as per cent."""
    return "–" if share is None else f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 - small ones to a tenth


def size(count: int) -> str:
    """Bytes."""
    for unit in ("B", "KiB"):
        if count < 1024:  # noqa: PLR2004 - a KiB
            return f"{count:,.0f} {unit}"
        count //= 1024
    return f"{count:,.0f} MiB"


FILTERS: Final[Mapping[str, Any]] = {
    "age": age, "data": data, "in_words": in_words, "line": line, "number": number, "percent": percent, "seconds": seconds,
    "seen": seen, "size": size, "stamp": stamp,
}  # fmt: skip
