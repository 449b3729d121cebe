"""Every write of an attempt names id, token and status in its text: what tests of single losses may not reach (promise P2)."""

import re

from asyncjobs.store import routines


def function(name: str) -> str:
    """The function's text without comments."""
    return re.sub(r"--.*", "", routines.of(name).text)


def writes_of(body: str) -> list[str]:
    """Its statements that update jobs, up to what they return."""
    return re.findall(r"UPDATE asyncjobs\.jobs AS j\s.*?(?=RETURNING|;)", body, re.DOTALL)


def test_writes_of_an_attempt_name_id_token_and_status() -> None:
    for name in ("ack", "finish_completed", "finish_one", "complete_in_transaction", "set_progress"):
        write = writes_of(function(name))[0]
        assert "j.claim_token = " in write, name
        assert "j.status = 'processing'" in write, name
        assert re.search(r"j\.id = (ANY|_id)", write), name
