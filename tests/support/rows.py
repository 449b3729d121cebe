"""Tables of which all rows run in one test and one database: a database and its sessions cost more than most rows.

    @each("case", CASES)
    async def test_kill(pair: Peers, case: Case) -> None: ...

is used as `pytest.mark.parametrize` is, for tests of a `pair`. Each row begins with empty tables, and is audited at its end. A
row that fails keeps no other from running; all that failed are told of by name.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from tests.support.peers import Peers

Test: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the test on each row: with one name it is that argument's value, else the values of all."""
    given = [names] if isinstance(names, str) else list(names)
    table = [dict(zip(given, [row] if isinstance(names, str) else row, strict=True)) for row in rows]
    assert table

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        async def of_all(pair: Peers, **fixtures: Any) -> None:
            failed: list[Exception] = []
            for row in table:
                try:
                    await test(pair=pair, **fixtures, **row)
                    await pair.promises_hold()
                except Exception as error:  # noqa: BLE001 - told of below
                    error.add_note(f"in the row {_told(row)}")
                    failed.append(error)
                await pair.clear()
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows failed", failed)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in given]
        of_all.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return of_all

    return decorate


def _told(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in row.items())
