"""What is published: it builds, holds what it needs and nothing else, works without any extra, and as a new user takes it."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import asyncpg
import pytest

from tests.support.eventually import eventually
from tests.support.program import ROOT, Program

CORE = {"anyio", "asyncpg", "cronsim", "msgspec", "structlog"}

IMPORT_ALL = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent}:
            raise ModuleNotFoundError(f"{{name}} is taken for not installed", name=name.split(".")[0])

sys.meta_path.insert(0, Absent())
import asyncjobs
print(asyncjobs.__file__)
assert "structlog" not in sys.modules, "an enqueue logs nothing"
edges = ("asyncjobs.integrations.", "asyncjobs.cli", "asyncjobs.dashboard")
for module in pkgutil.walk_packages(asyncjobs.__path__, "asyncjobs."):
    if not module.name.startswith(edges) and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if module.name not in {optional}:
                raise SystemExit(f"{{module.name}}: {{error}}")
from importlib.resources import files
assert files("asyncjobs").joinpath("py.typed").is_file()
from asyncjobs.store.database import Database
assert Database("postgresql://x").sql("beat").startswith("-- ")
"""

#: Files that are there for one optional library, and are imported when it is.
FOR_OPTIONAL_LIBRARIES = {"asyncjobs.declare.pydantic_types", "asyncjobs.testing.plugin"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist, built from this folder."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(target), cwd=ROOT)
    return {"wheel": next(target.glob("*.whl")), "sdist": next(target.glob("*.tar.gz"))}


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was unpacked, as pip would."""
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(built["wheel"]).extractall(folder)
    return folder


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_has_code_types_sql_and_licence_and_nothing_else(built: dict[str, Path]) -> None:
    inside = set(zipfile.ZipFile(built["wheel"]).namelist())
    sources = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "asyncjobs").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and ".egg-info" not in str(file)
    }
    assert {name for name in inside if ".dist-info/" not in name} == sources
    assert "asyncjobs/py.typed" in inside
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)
    assert {
        "asyncjobs/store/migrations/0019_baseline.sql",
        "asyncjobs/store/routines/finish/finish.sql",
        "asyncjobs/store/sql/beat.sql",
    } <= inside


def test_pytest_finds_the_plugin_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(installed), "PATH": os.environ["PATH"]}
    said = run(sys.executable, "-m", "pytest", "--fixtures", "-q", "-c", os.devnull, cwd=tmp_path, env=env)
    assert "asyncjobs_dsn" in said


def test_the_sdist_has_tests_and_examples_too(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "docs/README.md",
        "Makefile",
        "asyncjobs/py.typed",
        "tests/conftest.py",
    } <= inside


def test_it_works_installed_without_any_extra(installed: Path, tmp_path: Path) -> None:
    absent = libraries_of_extras()
    script = IMPORT_ALL.format(absent=sorted(absent), optional=sorted(FOR_OPTIONAL_LIBRARIES))
    # The core's dependencies come from here; whatever an extra would bring is taken for absent.
    env = {"PYTHONPATH": str(installed), "PATH": os.environ["PATH"], "PYTHONWARNINGS": "error"}
    said = run(sys.executable, "-c", script, cwd=tmp_path, env=env)
    assert said.startswith(str(installed)), "the installed package is what was imported"


def libraries_of_extras() -> set[str]:
    names = {"attr", "attrs", "opentelemetry", "pydantic", "pytest", "_pytest"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, requirements in extras.items():
        if extra != "all":
            names |= {requirement.split(">")[0].split("[")[0].strip().replace("-", "_") for requirement in requirements}
    return names


def test_the_core_needs_four_libraries() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {requirement.split(">")[0] for requirement in project["dependencies"]} == CORE
    every = {name for name in project["optional-dependencies"] if name != "all"}
    (all_of_them,) = project["optional-dependencies"]["all"]
    assert set(all_of_them.removeprefix("asyncjobs[").removesuffix("]").split(",")) == every


SHOP = """
import asyncio, os, pathlib
from asyncjobs import AsyncJobs

jobs = AsyncJobs(heartbeat=0.2, runner_timeout=1.5, rescue_interval=0.2)

@jobs.job("charge", max_attempts=1)
async def charge(card: str) -> str:
    if not pathlib.Path("repaired").exists():
        print("charging", card, flush=True)
        await asyncio.sleep(3600)
    return f"charged {card}"
"""


class User:
    """Somebody at a shell in a folder, with a virtual environment of their own; what asyncjobs stands on is there."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self.dsn = dsn
        self.bin = folder / "venv" / "bin"
        self.env = {"PYTHONPATH": sysconfig.get_path("purelib"), "PYTHONUNBUFFERED": "1", "COLUMNS": "100"}

    def installs(self, wheel: Path) -> None:
        """By pip, into the environment."""
        venv.create(self.folder / "venv", with_pip=False)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.bin / "python"))
        run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel), cwd=self.folder)

    def types(self, *words: object) -> Program:
        """`asyncjobs` on these words."""
        env = {**self.env, "ASYNCJOBS_DSN": self.dsn, "ASYNCJOBS_APP": "shop:jobs"}
        return Program(str(self.bin / "asyncjobs"), *map(str, words), env=env, cwd=self.folder)

    async def reads(self, *words: object) -> str:
        """What it says to them."""
        async with self.types(*words) as program:
            await program.succeeds(timeout=60)
        return program.said

    async def is_(self, job_id: int, status: str) -> bool:
        """Whether the job is in this status; asked of the database, where a look costs little."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return bool(await connection.fetchval("SELECT status = $2 FROM asyncjobs.jobs WHERE id = $1", job_id, status))
        finally:
            await connection.close()


async def test_a_new_user_installs_runs_kills_inspects_and_retries(
    built: dict[str, Path], tmp_path: Path, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    user = User(tmp_path, empty_dsn)
    user.installs(built["wheel"])
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    assert (await user.reads("--version")).startswith("asyncjobs ")
    assert "applied 0019_baseline.sql" in await user.reads("migrate", "shop:jobs")
    job_id = json.loads(await user.reads("jobs", "enqueue", "charge", '{"card": "visa"}', "--json"))["id"]
    async with user.types("run", "shop:jobs", "--queues", "default=2") as first:
        await first.line("charging visa", timeout=60)
        assert "it runs, on runner" in await user.reads("jobs", "explain", job_id)
        first.kill()
        await first.wait()
    async with user.types("run", "shop:jobs") as second:
        await second.line("runs jobs", timeout=60)

        await eventually(lambda: user.is_(job_id, "dead"), description="the second runner took the job back", timeout=60)
        assert f" {job_id} " in await user.reads("dead", "list", "--unacknowledged")
        async with user.types("doctor") as doctor:
            assert "runners died" in (doctor.said if await doctor.wait() in {5, 6} else "")
        (tmp_path / "repaired").touch()
        assert f"job {job_id}: retried (was dead)" in await user.reads("jobs", "retry", job_id)

        await eventually(lambda: user.is_(job_id, "completed"), description="it ended well", timeout=60)
        second.terminate()
        await second.succeeds(timeout=60)
    assert "charged visa" in await user.reads("jobs", "show", job_id)
