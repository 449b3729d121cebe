"""The prose of the documents is true: files that it names are there, and nothing public is left undocumented."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import asyncjobs
import asyncjobs.integrations
from asyncjobs.admin import Admin
from asyncjobs.testing import plugin
from tests.support.pages import PAGES, ROOT, blocks, name_of

PROSE = [*PAGES, *(ROOT / ".github" / name for name in ("CONTRIBUTING.md", "SECURITY.md"))]


def named_files(text: str) -> Iterator[str]:
    yield from re.findall(r"`([\w./-]+\.(?:py|sql|md|yml|json))`", text)


@pytest.mark.parametrize("file", PROSE, ids=name_of)
def test_files_that_are_named_are_there(file: Path) -> None:
    every = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.suffix in {".py", ".sql", ".md", ".yml", ".json"}}
    named = set(named_files(file.read_text(encoding="utf-8"))) - {block.file for block in blocks(name_of(file))}
    assert sorted(name for name in named if not any(f"/{one}".endswith(f"/{name}") for one in every)) == []


def test_the_life_of_a_job_has_ten_steps_with_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = re.findall(r"^(\d+)\. \*\*([\w, ]+)\.?\*\*(.*?)(?=^\d+\. \*\*|^Jobs of schedules)", text, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _, _ in steps] == list(range(1, 11))
    assert [name for _, name, body in steps if not list(named_files(body))] == []


def test_make_targets_that_are_named_exist() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for file in PROSE:
        assert (
            set(re.findall(r"make ([a-z][a-z-]+)\b(?=[`\s]*(?:#|ARGS|`|$))", file.read_text(encoding="utf-8"), re.MULTILINE))
            <= made
        )


def public() -> Iterator[tuple[str, Any]]:
    """Everything that users import, and what they reach through it."""
    modules: list[Any] = [asyncjobs, importlib.import_module("asyncjobs.testing"), importlib.import_module("asyncjobs.dashboard")]
    for module in modules:
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for info in pkgutil.iter_modules(asyncjobs.integrations.__path__, "asyncjobs.integrations."):
        module = importlib.import_module(info.name)
        yield info.name, module
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == info.name:
                yield f"{info.name}.{name}", value
    yield "asyncjobs.admin.Admin", Admin


def members(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The thing itself, and its public methods and properties that are written here."""
    yield name, value
    if not inspect.isclass(value):
        return
    for member, found in inspect.getmembers(value):
        plain = found.fget if isinstance(found, property) else found
        is_ours = (getattr(plain, "__module__", None) or "").startswith("asyncjobs")
        if not member.startswith("_") and is_ours and (inspect.isroutine(plain) or isinstance(found, property)):
            yield f"{name}.{member}", plain


def test_everything_public_says_what_it_is() -> None:
    every = [pair for name, value in public() for pair in members(name, value)]
    assert len(every) > 150
    callables = [
        (name, value) for name, value in every if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
    ]
    assert [name for name, value in callables if not (value.__doc__ or "").strip()] == []
    assert plugin.__doc__
