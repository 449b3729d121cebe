"""`--resume`: go on where the last run was stopped. What passed is left out as long as the sources are the same."""

import hashlib
from pathlib import Path

import pytest

_SOURCES = ("asyncjobs", "tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("asyncjobs").addoption("--resume", action="store_true", help="leave out what has passed with these sources")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--resume"):
        config.pluginmanager.register(_Resume(config.rootpath), "asyncjobs-resume")


class _Resume:
    def __init__(self, root: Path) -> None:
        self._failed: set[str] = set()
        self._left_out: list[pytest.Item] = []
        self._file = root / ".proof" / f"passed-{_fingerprint(root)}"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = set(self._file.read_text(encoding="utf-8").splitlines()) if self._file.exists() else set[str]()
        self._left_out = [item for item in items if item.nodeid in passed]
        config.hook.pytest_deselected(items=self._left_out)
        items[:] = [item for item in items if item.nodeid not in passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            self._file.parent.mkdir(exist_ok=True)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(report.nodeid + "\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """That everything has passed before is no failure."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._left_out:
            session.exitstatus = pytest.ExitCode.OK


def _fingerprint(root: Path) -> str:
    digest = hashlib.sha256()
    for folder in _SOURCES:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in {".py", ".sql"}:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
