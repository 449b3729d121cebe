"""The rules are in `model/storable.py`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncjobs.model.storable import cut, cut_front, in_ascii, storable

ODD = st.text(st.characters() | st.sampled_from(["\x00", "\ud800", "ü", "😀"]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\0b", r"a\x00b"), ("a\ud800b", r"a\ud800b"), ("\0" * 2, r"\x00\x00"), ("ü😀 \\x00", "ü😀 \\x00"), ("", "")],
)
def test_what_the_database_cannot_hold_is_shown_by_its_escape(text: str, shown: str) -> None:
    assert storable(text) == shown
    assert cut(text, 100) == cut_front(text, 100) == shown


def test_what_an_encoding_does_not_have_is_shown_by_its_escape_too() -> None:
    assert in_ascii("ü Ω \0 \ud800 x") == r"\xfc \u03a9 \x00 \ud800 x"


@given(text=ODD, limit=st.integers(0, 30))
def test_a_text_that_is_cut_fits_and_says_so(text: str, limit: int) -> None:
    for short in (cut(text, limit), cut_front(text, limit)):
        assert "\0" not in short
        assert len(short.encode()) <= max(limit, 3)
    if limit >= 3:
        assert cut(text, limit) == storable(text) or cut(text, limit).endswith("…")
        assert cut_front(text, limit) == storable(text) or cut_front(text, limit).startswith("…") or limit == 3
