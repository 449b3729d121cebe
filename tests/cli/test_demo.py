"""`asyncjobs demo` keeps its word, and touches nothing that the environment names."""

from asyncjobs.cli import failures
from asyncjobs.cli.demo import Tally
from tests.support.cli import cli


async def test_the_demo_loses_nothing_and_keeps_the_order_of_keys() -> None:
    said = await cli("demo", "--jobs", "100", dsn="postgresql://nobody@127.0.0.1:1/x", ASYNCJOBS_APP="no_such_app:jobs")
    assert (said.code, said.err) == (0, "")
    last = said.out.splitlines()[-1]
    counts = dict(part.split("=") for part in last.removeprefix("demo: ").split())
    assert set(counts) == set(Tally.__struct_fields__)
    assert (counts["enqueued"], counts["completed"], counts["dead"]) == ("100", "98", "2")
    assert {counts[name] for name in ("lost", "overlapped", "out_of_order")} == {"0"}
    assert "ConnectionError: the bank did not answer" in said.out


async def test_it_knows_no_app_and_no_database() -> None:
    said = await cli("demo", "--dsn", "postgresql://x/y")
    assert (said.code, "No such option" in said.err) == (failures.BAD_INPUT, True)
