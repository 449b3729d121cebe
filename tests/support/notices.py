"""What notifications say."""

import re


def without_lot(payload: object) -> str:
    """A notification without the number of jobs that it may tell of, and without its lot."""
    return re.sub(r"^([qf])[0-9]+(\.[0-9]+)?:", r"\1:", str(payload))
