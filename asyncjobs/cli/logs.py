"""What a program's log tells, and how: for every verb that lasts."""

import logging
import sys
from typing import Final, get_args

from asyncjobs.cli.kit import Choice, option
from asyncjobs.telemetry.logs import Level, Style, configure_logs

LOG_OPTIONS: Final = (
    option("--log-level", type=Choice(get_args(Level)), default="info", show_default=True, help="What the log tells."),
    option("--log-format", type=Choice(get_args(Style)), help="Lines as JSON objects or for eyes.  [default: as the app has it]"),
)


def log(level: Level, style: Style | None) -> None:
    """Lines of the log go to standard error, unless no format is asked for and the app has taken care of logging itself."""
    if style is not None:
        configure_logs(style, level=level, file=sys.stderr, of_logging=True)
        return
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("asyncjobs").setLevel(level.upper())
