"""`asyncjobs run`: a process that runs jobs until it is told to stop."""

import os
import sys

from asyncjobs.cli.deadline import Deadline
from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.kit import DURATION, Asked, Group, Number, argument, option, verb
from asyncjobs.cli.logs import LOG_OPTIONS, log
from asyncjobs.cli.queue_words import queues_of
from asyncjobs.cli.reload import run_reloading
from asyncjobs.open.run import GRACE_SECONDS_IN_RUN
from asyncjobs.open.signals import at_once
from asyncjobs.telemetry.logs import Level, Style


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(
        program,
        "run",
        argument("named", metavar="[MODULE:ATTR]", required=False),
        option(
            "--queues",
            envvar="ASYNCJOBS_QUEUES",
            metavar="LIST",
            help='As "default=20,mail=8/fast:3": queues, slots, slots of lanes.',
        ),
        option("--types", envvar="ASYNCJOBS_TYPES", metavar="LIST", help="Only jobs of these types."),
        option(
            "--grace", type=float, metavar="SECONDS", help="For how long jobs may end by themselves at a stop.  [default: 25]"
        ),
        option("--name", envvar="ASYNCJOBS_NAME", metavar="NAME", help="What people call this runner, in lists and logs."),
        option("--until-idle", is_flag=True, help="End when nothing is due, and what ran has enqueued nothing more."),
        option("--max-jobs", type=Number(min=1), metavar="N", help="End when so many jobs were started, and have ended."),
        option("--max-time", type=DURATION, metavar="DURATION", help="End after so long: seconds, or as 90s, 15m, 2h, 1d."),
        *LOG_OPTIONS,
        option("--reload", is_flag=True, help="Start anew when a Python file below this folder changes."),
        opens=False,
        lasts=True,
        settings=("grace",),
    )(run)


async def run(
    asked: Asked,
    queues: str | None,
    types: str | None,
    log_level: Level,
    log_format: Style | None,
    *,
    reload: bool,
    name: str | None,
    until_idle: bool,
    max_jobs: int | None,
    max_time: float | None,
) -> int | None:
    """Run the jobs of an app until SIGTERM or SIGINT; a second signal cuts the grace short.

    It ends by itself, with exit code 0, when nothing is due (--until-idle; what is for later or paused does not keep it), after
    so many jobs, or after so long.

    What does not let it end, two seconds after the grace, is left to the operating system, and its jobs to the rescue.

    The log goes to standard error. With --log-format every line of it, also what other libraries log, has that format.
    """
    if not asked.jobs.handlers:
        raise BadInput("there is nothing to run: name an app that declares jobs, as in `asyncjobs run myapp:jobs`.")
    chosen = queues_of(queues, asked.jobs.queues)
    names = None if types is None else [name.strip() for name in types.split(",") if name.strip()]
    if reload:
        return await run_reloading([word for word in sys.argv[1:] if word != "--reload"])
    log(log_level, log_format)
    if log_format != "json":  # whatever reads that expects nothing else
        asked.note(f"process {os.getpid()} runs jobs; stop it with SIGTERM or Ctrl-C.")
    grace = asked.jobs.settings.grace
    at_once.set(Deadline(GRACE_SECONDS_IN_RUN if grace is None else grace, quiet=log_format == "json").tell)
    await asked.jobs.run(
        queues=chosen, types=names, until_idle=until_idle, max_jobs=max_jobs, max_time=max_time, name=name or None
    )
    return None
