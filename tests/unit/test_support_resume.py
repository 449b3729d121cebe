"""What has passed is left out by the next run with the same sources, also when the run was killed."""

from pathlib import Path

import pytest

from tests.support.program import Program

TESTS = """
import os, signal, time
def test_passes(): print("RAN passes")
def test_fails(): print("RAN fails"); assert not {fails}
def test_hangs():
    print("RAN hangs")
    while {hangs}: time.sleep(0.1)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "asyncjobs").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def program(root: Path) -> Program:
    plugins = ["-p", "tests.support.resume", "-p", "no:cacheprovider"]
    return Program.python("-m", "pytest", *plugins, "-s", "--resume", "--rootdir", str(root), str(root), cwd=root)


def ran(program: Program) -> list[str]:
    return [line.split("RAN ")[1] for line in program.output if "RAN " in line]


async def test_goes_on_where_it_was_stopped(root: Path) -> None:
    (root / "test_it.py").write_text(TESTS.format(fails=True, hangs=True))
    async with program(root) as first:
        await first.line("RAN hangs")
        first.kill()
        await first.wait()
    (root / "test_it.py").write_text(TESTS.format(fails=False, hangs=False))  # tests of this folder are no sources
    async with program(root) as second:
        assert await second.wait() == 0
    assert ran(second) == ["fails", "hangs"]
    async with program(root) as third:
        assert await third.wait() == 0
    assert ran(third) == []


async def test_starts_anew_when_the_sources_changed(root: Path) -> None:
    (root / "test_it.py").write_text(TESTS.format(fails=False, hangs=False))
    for number in range(2):
        (root / "asyncjobs" / "source.py").write_text(f"number = {number}")
        async with program(root) as run:
            assert await run.wait() == 0
        assert ran(run) == ["passes", "fails", "hangs"]
