"""Whether what would be published is right: `make release-check`.

1. The sdist and the wheel are built; a wheel that is built from the sdist has the same files.
2. Their metadata, licence files, typing marker and size are as a release needs them; the changelog tells of the version.
3. The wheel alone is installed in an empty environment: it brings its few libraries and no others, imports, and a type checker
   sees its types. The command line says which extra it lacks.
4. With extras, as pip gives them to a new user: the README's quickstart answers its curls, and the examples print what they
   promise.

Everything happens in a folder of its own, outside of the checkout, and with an environment from which the checkout is not seen.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from pathlib import Path
from shutil import copytree
from typing import Final

from tests.support.pages import ROOT, blocks, text_of, write_file
from tests.test_examples import OUTPUT

PROJECT: Final = tomllib.loads(text_of("pyproject.toml"))["project"]

#: Bytes. Much more is a file that was not meant to be published.
MOST_OF: Final[Mapping[str, int]] = {"wheel": 1_500_000, "sdist": 3_500_000}

#: What the examples import beside asyncjobs and its extras.
OF_EXAMPLES: Final = ("uvicorn", "httpx", "django>=5.2", "psycopg[binary]", "pytest", "pytest-asyncio", "opentelemetry-sdk")

WRONG: Final = "\n\nasync def wrong() -> None:\n    await send_email.enqueue(to=7)\n"


class ReleaseError(Exception):
    """What keeps this from being published."""


def need(holds: object, why: str) -> None:
    if not holds:
        raise ReleaseError(why)


def run(*command: object, cwd: Path, env: Mapping[str, str] | None = None, fails: bool = False) -> str:
    """What the command printed; ReleaseError when it fails, or (`fails`) when it does not."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=600)
    need(bool(done.returncode) == fails, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Place:
    """A folder outside of the checkout: what was built, an environment, a user's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.python = folder / "venv" / "bin" / "python"

    @property
    def env(self) -> dict[str, str]:
        """Without what leads into the checkout, or to a database."""
        kept = {name: value for name, value in os.environ.items() if not re.match(r"ASYNCJOBS|PYTHON|VIRTUAL_ENV", name)}
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        return kept | {"PATH": path, "XDG_STATE_HOME": str(self.folder / "state"), "PYTHONUTF8": "1"}

    def pip(self, *words: object) -> str:
        tool = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", self.python)
        return run(*tool, *words, cwd=self.home, env=self.env)

    def runs(self, *words: object, fails: bool = False) -> str:
        return run(self.python, *words, cwd=self.home, env=self.env, fails=fails)


def build(place: Place) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    made = place.folder / "dist"
    run(sys.executable, "-m", "hatchling", "build", "-d", made, cwd=ROOT)
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place.folder / "unpacked", filter="data")
    (source,) = (place.folder / "unpacked").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place.folder / "again", cwd=source)
    (again,) = (place.folder / "again").glob("*.whl")
    need(
        contents(wheel) == contents(again), "the wheel that is built from the sdist has other files than the one of the checkout"
    )
    return wheel, sdist


def contents(wheel: Path) -> dict[str, int]:
    return {file.filename: file.CRC for file in zipfile.ZipFile(wheel).infolist()}


def check_files(wheel: Path, sdist: Path) -> str:
    inside = set(contents(wheel))
    need("asyncjobs/py.typed" in inside, "the wheel has no py.typed: type checkers would not see its types")
    need(any(name.endswith(".dist-info/licenses/LICENSE") for name in inside), "the wheel has no LICENSE")
    odd = sorted(name for name in inside if not re.match(r"asyncjobs/|asyncjobs-[\w.]+\.dist-info/", name))
    need(not odd, f"the wheel has files of others: {odd}")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {"LICENSE", "README.md", "docs/README.md", "docs/changelog.md", "pyproject.toml", "Makefile"} - names
    need(not missing, f"the sdist lacks {sorted(missing)}")
    sizes = {"wheel": wheel.stat().st_size, "sdist": sdist.stat().st_size}
    for what, size in sizes.items():
        need(
            size <= MOST_OF[what],
            f"the {what} has {size:,} bytes, more than {MOST_OF[what]:,}: look for what was not meant to be in it",
        )
    return f"files: {len(inside)} in the wheel of {sizes['wheel']:,} bytes, {len(names)} in the sdist of {sizes['sdist']:,} bytes"


def metadata_of(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(archive.read(name).decode())


def check_metadata(wheel: Path) -> str:
    said = metadata_of(wheel)
    version = PROJECT["version"]
    need((said["Name"], said["Version"]) == ("asyncjobs", version), f"the metadata says {said['Name']} {said['Version']}")
    need(said["License-Expression"] == "Apache-2.0", "the metadata does not name the licence")
    need(said.get_all("License-File") == ["LICENSE"], "the metadata does not name the licence's file")
    need(said["Requires-Python"] == PROJECT["requires-python"], "the metadata names other Pythons than pyproject.toml")
    need(said["Description-Content-Type"] == "text/markdown", "the description is no Markdown")
    need("# asyncjobs" in str(said.get_payload()), "the description is not the README")
    needs = [one for one in said.get_all("Requires-Dist") or () if "extra ==" not in one]
    need(len(needs) == len(PROJECT["dependencies"]), f"without extras it needs {needs}")
    need(
        set(said.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"]),
        "the extras are not those of pyproject.toml",
    )
    need(f"## {version} " in text_of("docs/changelog.md"), f"the changelog does not tell of {version}")
    return f"metadata: {said['Name']} {version}, Python {said['Requires-Python']}, {len(needs)} libraries without extras"


def check_alone(place: Place, wheel: Path) -> str:
    """Nothing but the wheel and what it needs."""
    venv.create(place.python.parents[1], with_pip=False)
    place.pip("install", "--quiet", wheel)
    place.pip("check")
    there = {one["name"].lower() for one in json.loads(place.pip("list", "--format", "json"))}
    where = place.runs("-c", "import asyncjobs; print(asyncjobs.__file__)")
    need(str(place.folder) in where, f"what was imported is {where}")
    lacks = run(place.python.parent / "asyncjobs", "--version", cwd=place.home, env=place.env, fails=True)
    need('pip install "asyncjobs[cli]"' in lacks, f"without the extra the command line says {lacks!r}")
    return f"alone: {len(there)} packages: {', '.join(sorted(there))}"


def check_types(place: Place) -> str:
    """A type checker takes a user's program, and refuses a wrong argument in it."""
    write_file("README.md", "app.py", place.home)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", place.python, "--cache-dir", place.folder / "mypy")
    run(*mypy, "app.py", cwd=place.home, env=place.env)
    (place.home / "wrong.py").write_text((place.home / "app.py").read_text() + WRONG, encoding="utf-8")
    said = run(*mypy, "wrong.py", cwd=place.home, env=place.env, fails=True)
    need('Argument "to"' in said and "Found 1 error" in said, f"mypy says of a wrong argument: {said}")
    return "types: mypy takes the quickstart, and refuses a wrong argument"


def check_quickstart(place: Place) -> str:
    """The commands of the README, on the wheel instead of the checkout."""
    post, get = (line for block in blocks("README.md", "sh") for line in block.text.splitlines() if line.startswith("curl"))
    log = place.folder / "uvicorn.log"
    began = time.monotonic()
    with log.open("w") as file:
        command = [str(place.python), "-m", "uvicorn", "app:app", "--port", "8765"]
        server = subprocess.Popen(command, cwd=place.home, env=place.env, stdout=file, stderr=file)
        try:
            accepted = asked(at(post), method="POST", patience=60)
            job = re.sub(r"\d+$", str(accepted["job_id"]), at(get))
            while asked(job)["status"] != "completed":
                need(time.monotonic() - began < 60, f"the quickstart's job is not done after a minute:\n{log.read_text()}")
                time.sleep(0.1)
            result = asked(job)["result"]
        finally:
            server.terminate()
            server.wait(timeout=30)
    need(result == "sent welcome to ada@example.com", f"the quickstart answers {result!r}")
    return f"quickstart: answered in {time.monotonic() - began:.1f} s"


def at(command: str) -> str:
    (url,) = re.findall(r"http://[^\s\"]+", command)
    return str(url).replace(":8000/", ":8765/")


def asked(url: str, *, method: str = "GET", patience: float = 5.0) -> dict[str, str]:
    """What it answers, as soon as it does."""
    until = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
                return dict(json.load(answer))
        except OSError as error:
            if time.monotonic() > until:
                raise ReleaseError(f"{url}: {error}") from error
            time.sleep(0.1)


def check_examples(place: Place) -> str:
    """Every example, from a folder that has nothing else of the checkout."""
    copytree(ROOT / "examples", place.home / "examples")
    for name, promised in OUTPUT.items():
        command = [f"examples/{name}"] if name.endswith(".py") else ["-m", f"examples.{name}"]
        printed = [re.sub(r"(passed) in .*", r"\1", line) for line in place.runs(*command).splitlines()]
        need([line for line in printed if line in promised] == promised, f"{name} prints {printed}")
    return f"examples: {len(OUTPUT)} print what they promise"


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """All of it; the first thing that is wrong ends it with exit code 1."""
    with tempfile.TemporaryDirectory(prefix="asyncjobs-release-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # root's PostgreSQL runs as nobody
        place = Place(folder)
        wheel, sdist = build(place)
        tell(f"built: {wheel.name}, {sdist.name}")
        tell(check_files(wheel, sdist))
        tell(check_metadata(wheel))
        tell(check_alone(place, wheel))
        place.pip("install", "--quiet", f"{wheel}[embedded,fastapi,cli]", "uvicorn")
        tell(check_types(place))
        tell(check_quickstart(place))
        place.pip("install", "--quiet", f"{wheel}[all]", *OF_EXAMPLES)
        tell(check_examples(place))
        tell("it may be published")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        sys.exit(f"not to be published: {error}")
