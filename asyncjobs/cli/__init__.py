"""The command line: `asyncjobs`. A thin skin over `jobs.admin`: whatever it does, Python can do, too.

Exit codes: 0 done · 1 not done, since what was asked for is in a state that does not allow it, or a time ran out · 2 the words
make no sense (options, names, an app that cannot be loaded, a confirmation that nobody can give) · 3 nothing found: no such id,
or a filter that nothing fits · 4 the database is away, or its schema is not as it has to be · 5 the doctor warns, 6 the doctor
says that work is at risk · 70 an error of asyncjobs itself (`--debug` shows where) · 130 interrupted.

There is one file per noun. `kit` is the one file that knows click, `screen` the one that knows rich. `first_process` is for
containers.
"""

import sys
from typing import Final

from asyncjobs.cli.first_process import leave_process_one

_LIBRARIES: Final = ("click", "rich")


def main() -> None:
    """The console script."""
    leave_process_one()
    try:
        from asyncjobs.cli.program import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _LIBRARIES:
            raise
        sys.exit(f'asyncjobs: the command line needs {error.name}, which is not installed: pip install "asyncjobs[cli]"')
    sys.exit(run(sys.argv[1:]))
