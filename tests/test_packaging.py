"""What is published: it builds, holds what it needs and nothing else, and works without any extra."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
FOR_OPTIONAL_LIBRARIES = {"asyncjobs.pydantic_types", "asyncjobs.testing.plugin"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist, built from this folder."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(target), cwd=ROOT)
    return {"wheel": next(target.glob("*.whl")), "sdist": next(target.glob("*.tar.gz"))}


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


def test_pytest_finds_the_plugin_of_the_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"),
        *("--target", str(tmp_path / "installed"), str(built["wheel"])),
    )
    env = {"PYTHONPATH": str(tmp_path / "installed"), "PATH": os.environ["PATH"]}
    said = run(sys.executable, "-m", "pytest", "--fixtures", "-q", "-c", os.devnull, cwd=tmp_path, env=env)
    assert "asyncjobs_dsn" in said


def test_the_sdist_has_tests_and_examples_too(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "asyncjobs/py.typed", "tests/conftest.py"} <= inside


def test_it_works_installed_without_any_extra(built: dict[str, Path], tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(built["wheel"]))
    absent = libraries_of_extras()
    script = IMPORT_ALL.format(absent=sorted(absent), optional=sorted(FOR_OPTIONAL_LIBRARIES))
    # The core's dependencies come from here; whatever an extra would bring is taken for absent.
    env = {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": os.environ["PATH"], "PYTHONWARNINGS": "error"}
    said = run(python, "-c", script, cwd=tmp_path, env=env)
    assert said.startswith(str(tmp_path)), "the installed package is what was imported"


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
