"""`asyncjobs doctor`: what is wrong, and what to do about it."""

from asyncjobs.cli import screen
from asyncjobs.cli.failures import ALARMED, WARNED
from asyncjobs.cli.kit import Asked, Group, verb


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(program, "doctor", opens=False)(doctor)


async def doctor(asked: Asked) -> int | None:
    """Look for what is wrong, and say what to do about it; changes nothing.

    It looks at the database and at the runners, behind poolers, too, and on a schema that is missing, outdated or too new.

    Ends with 5 when it warns, and with 6 when work is at risk.
    """
    found = await asked.admin.doctor()
    rows = [(one.severity, one.what, one.evidence, one.remedy) for one in found]
    asked.answer(found, lambda: screen.table(("severity", "what", "evidence", "remedy"), rows) if found else "nothing is wrong")
    severities = {one.severity for one in found}
    return ALARMED if "critical" in severities else WARNED if "warning" in severities else None
