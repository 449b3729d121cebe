"""Annotations that are strings: resolved where the handler is declared."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from asyncjobs import AsyncJobs, InvalidHandler, JobContext, JobRouter, context

if TYPE_CHECKING:
    from decimal import Decimal

router = JobRouter()


@router.job("module")
async def module_level(ctx: JobContext, point: Point) -> Point:
    return point


@dataclass
class Point:
    x: int


def test_a_class_further_down_in_the_module_is_found() -> None:
    assert module_level.new(Point(1)).row.payload == '{"point":{"x":1}}'
    assert module_level.declaration.takes_context
    assert module_level.declaration.decode_result('{"x":1}') == Point(1)


def test_a_context_as_type_checkers_show_it_is_the_context() -> None:
    async def shown(ctx: context.JobContext[AsyncJobs], n: int) -> None: ...

    shown_type = JobRouter().job("shown")(shown)
    assert shown_type.declaration.takes_context
    assert shown_type.new(1).row.payload == '{"n":1}'


def test_a_class_of_the_function_that_declares_is_found() -> None:
    @dataclass
    class Local:
        y: int

    @router.job("local")
    async def local(ctx: JobContext, value: Local) -> None: ...

    assert local.new(Local(1)).row.payload == '{"value":{"y":1}}'


def test_a_function_of_another_module_means_its_own_names() -> None:
    @dataclass
    class Point:
        other: str

    assert Point("x").other == "x"
    moved = JobRouter().job("moved")(_takes_a_point)
    assert moved.new(_a_point()).row.payload == '{"point":{"x":1}}'


async def _takes_a_point(point: Point) -> None: ...


def _a_point() -> Point:
    return Point(1)


def test_a_class_that_only_type_checkers_import_is_named() -> None:
    @router.job("hidden")
    async def hidden(price: Decimal) -> None: ...

    with pytest.raises(InvalidHandler) as caught:
        hidden.new(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == (
        "job \"hidden\": an annotation cannot be resolved: name 'Decimal' is not defined. "
        "Import it at run time, not only for type checkers."
    )


def test_a_decorator_that_keeps_the_name_keeps_the_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @logged
    async def inner(ctx: JobContext, to: str) -> None: ...

    decorated = JobRouter().job("decorated")(inner)
    assert decorated.new(to="a").row.payload == '{"to":"a"}'
    assert (decorated.declaration.takes_context, decorated.declaration.is_async) == (True, True)
