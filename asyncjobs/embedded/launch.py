"""Run by its path, `python -I -S launch.py ORDER`: the supervisor, without importing the packages around it."""

import sys
from pathlib import Path
from types import ModuleType


def _stand_in(name: str, folder: Path) -> None:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    _stand_in("asyncjobs", here.parent)
    _stand_in("asyncjobs.embedded", here)
    from asyncjobs.embedded.supervisor import main

    main()
