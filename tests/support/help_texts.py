"""What the command line says of itself: `python -m tests.support.help_texts > tests/cli/help.txt` after a change."""

import sys
from collections.abc import Iterator

import click

from asyncjobs.cli.program import program
from tests.support.cli import call


def words_of(command: click.Command, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, the program's own (none) first."""
    yield before
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from words_of(command.commands[name], (*before, name))


def helps() -> str:
    """The help of every command, one behind the other."""
    parts = []
    for words in words_of(program):
        said = call(*words, "--help")
        assert said.code == 0
        parts.append(f"$ asyncjobs {' '.join((*words, '--help'))}\n{said.out}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(helps())
