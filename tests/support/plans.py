"""The plans of the statements inside the functions, as auto_explain tells them."""

import re

from tests.support.claims import Claims


class Plans:
    """The plans of the statements that ran since the last look, by the beginning of their text."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self._seen: list[str] = []

    async def watch(self) -> "Plans":
        connection = await self.claims.link.connection()
        connection.add_log_listener(lambda _, message: self._note(str(message)))
        await connection.execute(
            "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;"
            " SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_level = 'notice'"
        )
        return self

    def _note(self, message: str) -> None:
        if "Query Text:" in message:
            self._seen.append(message)

    def take(self, beginning: str) -> list[str]:
        """The plans of statements that begin so."""
        texts = self._texts()
        found = [text for text in texts if re.sub(r"\s+", " ", text).startswith(beginning)]
        assert found, f"no statement begins with {beginning!r} among {[text[:60] for text in texts]}"
        return found

    def take_textless(self) -> list[str]:
        """The plans of statements in functions in plain SQL, which have no text of their own (from 16 on: their parameters)."""
        return [text for text in self._texts() if re.match(r"(Query Parameters:.*\n)?.*\(cost=", text)]

    def _texts(self) -> list[str]:
        return [text.split("Query Text:", 1)[1].replace('"asyncjobs".', "asyncjobs.").strip() for text in self._seen]

    def forget(self) -> None:
        self._seen.clear()


def removed(plan: str) -> int:
    """How many rows were read for nothing."""
    return sum(int(count) for count in re.findall(r"Rows Removed by (?:Join Filter|Filter|Index Recheck): (\d+)", plan))


def check(plan: str, index: str) -> None:
    """It goes by this index alone, and reads nothing in vain."""
    _check(plan, f"using {index} on")


def check_places(plan: str) -> None:
    """It goes to where the rows are, without an index."""
    _check(plan, "Tid Scan on jobs")
    assert "Index Scan" not in plan, plan


def _check(plan: str, access: str) -> None:
    assert access in plan, plan
    for unwanted in ("Seq Scan", "Bitmap", "Sort Key", "Hash Join", "Merge Join"):
        assert unwanted not in plan, plan
    assert removed(plan) == 0, plan
