"""What every verb is made of: its words, the options that all have, the app it works on, and how it ends. Only this knows click.

A verb is an async function of `Asked` and its own parameters. It is called with the app open, says what it found by
`asked.answer`, and returns an exit code (None: done). What it raises becomes one line on standard error.
"""

import asyncio
import getpass
import os
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar, cast

import click
import msgspec
from click.shell_completion import get_completion_class

from asyncjobs.app import AsyncJobs
from asyncjobs.cli.event_loop import new_event_loop
from asyncjobs.cli.failures import BAD_INPUT, DONE, INTERRUPTED, BadInput, NothingFound, one_line
from asyncjobs.cli.target import target

Group: TypeAlias = click.Group
Choice: TypeAlias = click.Choice[str]
Instant: TypeAlias = click.DateTime
Number: TypeAlias = click.IntRange

V = TypeVar("V", bound=Callable[..., Awaitable[int | None]])

_CONTEXT: Final[dict[str, Any]] = {"max_content_width": 100}
_DOUBLE: Final = 2**53
SHELLS: Final = ("bash", "zsh", "fish")


class Asked:
    """What was asked for: the app, how to answer, and whom to ask back."""

    def __init__(
        self,
        jobs: AsyncJobs,
        *,
        as_json: bool = False,
        yes: bool = False,
        debug: bool = False,
        by: str | None = None,
        why: str | None = None,
    ) -> None:
        self.jobs = jobs
        self.admin = jobs.admin.acting(by, why=why, via="cli")  # the verbs, by who said --by
        self.debug = debug
        self.as_json = as_json
        self._yes = yes

    def answer(self, data: object, text: Callable[[], str]) -> None:
        """Say it: the data as one JSON document, or the text for people."""
        if self.as_json:
            # Keys of mappings in the order in which they are declared; instants as ISO 8601, durations too.
            # Whole numbers beyond 2^53 are texts: to most programs that read JSON a number is a double.
            self.say(msgspec.json.format(msgspec.json.encode(_exact(msgspec.to_builtins(data))), indent=2).decode())
        else:
            self.say(text())

    def say(self, text: str) -> None:
        """One more line on standard output."""
        click.echo(text)

    def note(self, text: str) -> None:
        """A line beside the answer: on standard error."""
        click.echo(f"asyncjobs: {text}", err=True)

    def sure(self, what: str, *, dry_run_helps: bool = True) -> None:
        """Go on when the person at the terminal agrees; BadInput when there is none and `--yes` was not said."""
        if self._yes:
            return
        if not sys.stdin.isatty():
            look = " (or --dry-run to look first)" if dry_run_helps else ""
            raise BadInput(f"{what}: nobody is at a terminal to confirm it. Say --yes{look}.")
        click.confirm(f"{what}. Go on?", abort=True, err=True)


def _exact(value: Any) -> Any:
    """The value with whole numbers that a double does not hold as texts."""
    if isinstance(value, dict):
        return {name: _exact(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_exact(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _DOUBLE:
        return str(value)
    return value


class _Ordered(click.Group):
    """Shows its words in the order in which they were declared, under headings if it has some."""

    headings: Mapping[str, Sequence[str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.headings:
            super().format_commands(ctx, formatter)
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=80)) for name in names])


def group(name: str, help: str, *, parent: Group | None = None, headings: Mapping[str, Sequence[str]] | None = None) -> Group:
    """A word with verbs of its own. `headings`: all of them by what they are for."""
    made = _Ordered(
        name,
        help=help,
        short_help=re.split(r"[.:](?:\s|$)", help, maxsplit=1)[0],
        no_args_is_help=True,
        context_settings=_CONTEXT,
    )
    made.headings = headings or {}
    if parent is not None:
        parent.add_command(made)
    return made


def version(program: Group) -> None:
    """Let `--version` say which one this is."""
    click.version_option(package_name="asyncjobs", message="%(package)s %(version)s", help="Say which version this is.")(program)


def option(*names: str, help: str, **settings: Any) -> click.Parameter:
    """An option of a verb."""
    return click.Option(names, help=help, **settings)


def argument(name: str, **settings: Any) -> click.Parameter:
    """A word of a verb that is no option."""
    return click.Argument([name], **settings)


class _Duration(click.ParamType[float]):
    """Seconds, or a number with its unit."""

    name = "duration"
    _units: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """In seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value))
        if found is None:
            self.fail(f'"{value}" is no duration: give seconds, or as 90s, 15m, 2h, 1d.', param, ctx)
        return float(found[1]) * self._units[found[2] or "s"]


class _Moment(click.ParamType[datetime]):
    """An instant, or how long ago it was."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """As an aware datetime; without a zone it is UTC."""
        if re.fullmatch(r"\d+(\.\d+)?[smhd]", str(value)):
            return datetime.now(UTC) - timedelta(seconds=DURATION.convert(value, param, ctx))
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f'"{value}" is no time: say how long ago, as 90s, 15m, 1h, 2d, or when (UTC), as 2027-01-31T12:00.', param, ctx
            )
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


DURATION: Final = _Duration()
MOMENT: Final = _Moment()
YES: Final = option("--yes", "-y", is_flag=True, help="Do it without asking.")
DRY_RUN: Final = option("--dry-run", is_flag=True, help="Only say what would be done.")
BY: Final = option("--by", default=getpass.getuser, show_default="you", help="Who does it, for the record.")
#: What every verb has that changes something. They are no parameters of its function: `asked.admin` knows them.
ACTS: Final = (BY, option("--reason", "--message", "why", metavar="TEXT", help="Why, for the record."))

_WHERE: Final[Sequence[click.Parameter]] = (
    option("--app", envvar="ASYNCJOBS_APP", metavar="MODULE:ATTR", help="The app whose jobs are meant.  [env: ASYNCJOBS_APP]"),
    option("--dsn", metavar="DSN", help="The database, instead of the app's.  [env: ASYNCJOBS_DSN]"),
    option("--schema", metavar="NAME", help="The schema, instead of the app's."),
)
_HOW: Final[Sequence[click.Parameter]] = (
    option("--json", "as_json", is_flag=True, help="Answer as one JSON document."),
    option("--debug", is_flag=True, help="Show where an error comes from."),
)


def verb(
    parent: Group,
    name: str,
    *parameters: click.Parameter,
    opens: bool = True,
    needs_no_app: bool = False,
    lasts: bool = False,
    settings: Sequence[str] = (),
) -> Callable[[V], V]:
    """Declare a verb. Parameters named in `settings` are the app's. With `opens=False` the app is handed over closed.

    A parameter `named` is the app, as an argument beside the option. One that `needs_no_app` has nothing to do with any app.
    One that `lasts` gets the fastest event loop.
    """

    def declare(do: V) -> V:
        def callback(**given: Any) -> int:
            return _ended(do, given, opens=opens, settings=settings, loop_factory=new_event_loop if lasts else None)

        text = "\n\n".join(" ".join(part.split()) for part in (do.__doc__ or "").split("\n\n"))
        short = re.split(r"[.:;](?:\s|$)", text, maxsplit=1)[0]
        command = click.Command(
            name, params=[*parameters, *(() if needs_no_app else _WHERE), *_HOW], callback=callback, help=text, short_help=short
        )
        command.context_settings = _CONTEXT
        parent.add_command(command)
        return do

    return declare


def _ended(
    do: Callable[..., Awaitable[int | None]],
    given: dict[str, Any],
    *,
    opens: bool,
    settings: Sequence[str],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
) -> int:
    debug, as_json = given.pop("debug"), given.pop("as_json")
    yes, by, why = given.pop("yes", False), given.pop("by", None), given.pop("why", None)
    chosen = {name: given.pop(name) for name in settings}
    named, app = given.pop("named", None), given.pop("app", None)
    try:
        jobs = target(named or app, given.pop("dsn", None), given.pop("schema", None), **chosen)
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            asked = Asked(jobs, as_json=as_json, yes=yes, debug=debug, by=by, why=why)
            code = runner.run(_called(do, asked, given, opens=opens))
        sys.stdout.flush()
    except BrokenPipeError:
        _hush()
        return DONE
    except (click.Abort, click.ClickException, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 - every failure ends here, as one line and a code
        if debug:
            traceback.print_exc()
        message, number = one_line(error)
        click.echo(f"asyncjobs: {message}", err=True)
        return number
    return DONE if code is None else code


async def _called(do: Callable[..., Awaitable[int | None]], asked: Asked, given: Mapping[str, Any], *, opens: bool) -> int | None:
    if not opens:
        return await do(asked, **given)
    async with asked.jobs:
        return await do(asked, **given)


def _hush() -> None:
    """Nobody reads on: whatever is still to be written, at exit too, goes nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def found(asked: Asked, what: str, data: Sequence[object], text: Callable[[], str], *, filtered: bool) -> int | None:
    """Answer a list. One that is empty says so on standard error; with a filter, that is NothingFound."""
    if data or asked.as_json:
        asked.answer(data, text)
    if data:
        return None
    if filtered:
        raise NothingFound(f"no {what} fits the filter.")
    asked.note(f"there are no {what}s.")
    return None


def completion(program: Group, shell: str) -> str:
    """The shell's script that completes our words."""
    kind = get_completion_class(shell)
    if kind is None:
        raise BadInput(f'no completion for "{shell}": there is {", ".join(SHELLS)}.')
    return kind(program, {}, "asyncjobs", "_ASYNCJOBS_COMPLETE").source()


def run_program(program: Group, words: Sequence[str]) -> int:
    """Run the program on these words; the exit code."""
    try:
        answer = program.main(list(words), prog_name="asyncjobs", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return BAD_INPUT
    except click.UsageError as error:
        where = f" See `{error.ctx.command_path} --help`." if error.ctx is not None else ""
        click.echo(f"asyncjobs: {' '.join(error.format_message().split())}{where}", err=True)
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("asyncjobs: stopped; what was done stays done.", err=True)
        return INTERRUPTED
    return answer if isinstance(answer, int) else DONE
