"""`make release-check` refuses what must not be published. It takes minutes and an index: here are the checks of files alone."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.release import ReleaseError, check_files, check_metadata, run

IN_THE_WHEEL = {"asyncjobs/__init__.py", "asyncjobs/py.typed", "asyncjobs-0.1.0.dist-info/licenses/LICENSE"}
IN_THE_SDIST = {"LICENSE", "README.md", "docs/README.md", "docs/changelog.md", "pyproject.toml", "Makefile"}


def made(folder: Path, in_wheel: set[str], in_sdist: set[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / "one.whl", folder / "one.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in in_wheel:
            archive.writestr(name, "x")
    with tarfile.open(sdist, "w:gz") as tar:
        for name in in_sdist:
            tar.addfile(tarfile.TarInfo(f"asyncjobs-0.1.0/{name}"), io.BytesIO())
    return wheel, sdist


def test_files_of_a_release_are_taken(tmp_path: Path) -> None:
    assert "3 in the wheel" in check_files(*made(tmp_path, IN_THE_WHEEL, IN_THE_SDIST))


@pytest.mark.parametrize("name", ["asyncjobs/py.typed", "asyncjobs-0.1.0.dist-info/licenses/LICENSE"])
def test_a_wheel_that_lacks_something_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=Path(name).name):
        check_files(*made(tmp_path, IN_THE_WHEEL - {name}, IN_THE_SDIST))


def test_a_wheel_with_files_of_others_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"tests/conftest\.py"):
        check_files(*made(tmp_path, IN_THE_WHEEL | {"tests/conftest.py"}, IN_THE_SDIST))


def test_an_sdist_without_its_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"docs/README\.md"):
        check_files(*made(tmp_path, IN_THE_WHEEL, IN_THE_SDIST - {"docs/README.md"}))


def test_a_wheel_of_another_version_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "one.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("asyncjobs-0.0.1.dist-info/METADATA", "Name: asyncjobs\nVersion: 0.0.1\n\n# asyncjobs\n")
    with pytest.raises(ReleaseError, match=r"asyncjobs 0\.0\.1"):
        check_metadata(wheel)


def test_a_command_that_fails_says_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="sorry"):
        run("sh", "-c", "echo sorry; exit 3", cwd=tmp_path)
