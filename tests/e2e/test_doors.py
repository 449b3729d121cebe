"""Every option through every door: the same row, the same refusals, nothing after a rollback, a runner told once with the commit.

What is the same is what the app's own connections do. The cells are the product of tables: a new door (`tests/support/doors.py`)
or a new option is one line, and an option that no line has fails a test. A test goes through all of its cells, and tells which
have failed.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from django.db.backends.postgresql.features import DatabaseFeatures

from asyncjobs import Debounce, EnqueueError
from asyncjobs.declare.options import KNOWN
from asyncjobs.store.database import Connection
from tests.support.door_shop import Options, Shop, alike
from tests.support.doors import DOORS, Door, Refused, django_takes, doors_to
from tests.support.eventually import eventually
from tests.support.notices import without_lot

LATER: Final = datetime(2030, 1, 1, 9, tzinfo=UTC)
SOON: Final = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
MARKS: Final = "100 % of $1, 'x' or \"y\" \\ ö 😀 %s %(to)s"


PAYLOADS: Final = ({"to": "a", "tags": ["x", MARKS]}, {"to": "b"})


class Case(NamedTuple):
    """Options of a job of this type, and what is notified with the commit (None: not said here)."""

    type: str
    options: Options
    told: set[str] | None = None

    @property
    def payloads(self) -> Sequence[Mapping[str, Any]]:
        """Two jobs, where that is no duplicate."""
        return PAYLOADS if self.type == "note" else PAYLOADS[:1]


#: Of a type of which nothing is declared.
PLAIN: list[tuple[Options, set[str]]] = [
    ({}, {"q:default"}),
    ({"queue": "mail"}, {"q:mail"}),
    ({"queue": "mail", "lane": "fast"}, {"q:mail"}),
    ({"priority": 7}, {"f:default"}),
    ({"priority": 1_000}, {"q:default"}),
    ({"run_at": LATER}, set()),
    ({"run_at": datetime.now(UTC) - timedelta(days=1)}, {"q:default"}),
    ({"delay": 3600}, set()),
    ({"delay": 5}, {"d"}),
    ({"max_attempts": 9}, {"q:default"}),
    ({"timeout": timedelta(seconds=2.5)}, {"q:default"}),
    ({"correlation_id": MARKS, "parent_job_id": 2**62, "created_by": "ada"}, {"q:default"}),
    ({"dedup_key": MARKS}, {"q:default"}),
    ({"dedup_key": "d1", "dedup_for": 3600}, {"q:default"}),
    ({"dedup_key": "d2", "on_duplicate": "replace", "delay": 3600}, set()),
    ({"dedup_key": "d3", "dedup_until": "start"}, {"q:default"}),
    ({"dedup_key": "d4", "debounce": Debounce(quiet=600, at_most=3600)}, set()),
    ({"expires": 3600}, {"q:default"}),
    ({"expires": 9}, {"q:default", "d"}),
    ({"tags": ["nightly", MARKS[:63]]}, {"q:default"}),
    ({"keep_payload": False}, {"q:default"}),
    ({"serialization_key": MARKS}, {"q:default"}),
    ({"notify": False}, set()),
    ({"notify": False, "serialization_key": "k", "dedup_key": "d5"}, set()),
]
#: Of a type of which everything is declared: what options say goes before, and every value of one that is taken.
DECLARED: list[Any] = [
    *[{}],
    *[{"queue": "other"}, {"queue": "mail"}, {"queue": None}],
    *[{"lane": "slow"}, {"lane": "fast"}],
    *[{"priority": 0}, {"priority": 32_767}],
    *[{"run_at": SOON}, {"run_at": SOON.astimezone(None)}, {"run_at": SOON - timedelta(days=2)}],
    *[{"delay": 60}, {"delay": 0.5}, {"delay": 0}, {"delay": timedelta(minutes=5)}, {"delay": None}],
    *[{"max_attempts": 1}, {"max_attempts": 2**31 - 1}],
    *[{"timeout": 0.25}, {"timeout": timedelta(hours=1)}],
    *[{"correlation_id": "order-77"}],
    *[{"parent_job_id": 2**63 - 1}],
    *[{"created_by": "the \"import\" of 'x'"}],
    *[{"dedup_key": "k" * 255}],
    *[{"dedup_key": "a", "dedup_for": 60}, {"dedup_key": "b", "dedup_for": timedelta(days=1)}],
    *[{"dedup_key": one, "on_duplicate": one} for one in ("return", "replace", "raise")],
    *[{"serialization_key": "of one's own"}],
    *[{"expires": 30}, {"expires": timedelta(minutes=5), "delay": 60}],
    *[{"dedup_key": one, "dedup_until": one} for one in ("start", "end")],
    *[
        {"dedup_key": "a", "debounce": Debounce(quiet=600, at_most=3600)},
        {"dedup_key": "b", "debounce": Debounce(quiet=timedelta(hours=1), at_most=3600), "dedup_until": "end"},
    ],
    *[{"limit_key": "of one's own"}, {"limit_key": MARKS, "serialization_key": "k"}],
    *[{"tags": ["a"]}, {"tags": ["b", "a", "b"]}, {"tags": []}],
    *[{"keep_payload": True}, {"keep_payload": False}, {"keep_payload": None}],
    *[{"notify": True}, {"notify": False}],
]

CASES: Final = [
    *(Case("note", options, told) for options, told in PLAIN),
    *(Case("email", options) for options in DECLARED),
]
#: What is refused, with the error and what it says.
REFUSED: list[tuple[Options, str, str]] = [
    ({"priorty": 5}, "InvalidOption", "no option 'priorty'."),
    ({"queue": "mial"}, "UnknownQueue", 'email: queue "mial" is not in queues= (default, mail, other).'),
    ({"queue": ""}, "InvalidOption", 'queue name "" is empty: give it a name.'),
    ({"queue": " mail"}, "InvalidOption", 'queue name " mail" begins or ends with a space: leave it out.'),
    ({"queue": "asyncjobs.x"}, "InvalidOption", "is reserved: names that begin with"),
    ({"queue": "ä" * 32}, "InvalidOption", "is 64 bytes, at most 63."),
    ({"queue": "a\nb"}, "InvalidOption", "has characters that cannot be printed: leave them out."),
    ({"queue": 5}, "InvalidOption", "queue name 5 is an int, not a str: give it a name in quotes."),
    ({"lane": "fats"}, "UnknownLane", 'email: lane "fats" is not a lane of queue "mail" (fast, slow).'),
    ({"queue": "other", "lane": "slow"}, "UnknownLane", 'email: lane "slow" is not a lane of queue "other" (none).'),
    ({"priority": -1}, "InvalidOption", "priority=-1 is out of range: give 0 to 32,767 (lower runs first)."),
    ({"priority": "5"}, "InvalidOption", 'priority="5" is a str: give a whole number.'),
    ({"priority": 5.0}, "InvalidOption", "priority=5.0 is a float: give a whole number."),
    ({"priority": 2**70}, "InvalidOption", "is out of range: give 0 to 32,767"),
    ({"max_attempts": 0}, "InvalidOption", "max_attempts=0 is out of range: give 1 to 2,147,483,647."),
    ({"parent_job_id": 0}, "InvalidOption", "parent_job_id=0 is out of range: give 1 to 9,223,372,036,854,775,807."),
    ({"delay": -1}, "InvalidOption", "delay=-1 must be at least 0 seconds."),
    ({"delay": 4e9}, "InvalidOption", "is longer than 100 years."),
    ({"delay": [1]}, "InvalidOption", "delay=[1] is a list: give seconds or a"),
    ({"timeout": 0}, "InvalidOption", "timeout=0 must be more than 0 seconds."),
    ({"dedup_key": "a", "dedup_for": -5}, "InvalidOption", "dedup_for=-5 must be more than 0 seconds."),
    ({"dedup_for": 5}, "InvalidOption", " needs a dedup_key: give one."),
    ({"on_duplicate": "replace"}, "InvalidOption", "on_duplicate='replace' needs a dedup_key: give one."),
    (
        {"dedup_key": "a", "on_duplicate": "ignore"},
        "InvalidOption",
        'on_duplicate="ignore": give "return", "replace" or "raise".',
    ),
    ({"run_at": SOON, "delay": 5}, "InvalidOption", "give run_at or delay, not both."),
    ({"run_at": SOON.replace(tzinfo=None)}, "InvalidOption", " has no time zone: "),
    ({"run_at": datetime(2926, 1, 1, tzinfo=UTC)}, "InvalidOption", "is out of range: give an instant from 10 years ago to"),
    ({"run_at": "tomorrow"}, "InvalidOption", 'run_at="tomorrow" is a str: give a'),
    ({"notify": 1}, "InvalidOption", "notify=1 is an int: give "),
    ({"dedup_key": ""}, "InvalidOption", 'dedup_key="" is empty.'),
    ({"dedup_key": "k" * 256}, "InvalidOption", "has 256 characters, at most 255."),
    ({"serialization_key": 7}, "InvalidOption", "serialization_key=7 is an int, not a str."),
    ({"expires": 0}, "InvalidOption", "expires=0 must be more than 0 seconds."),
    ({"dedup_until": "start"}, "InvalidOption", "dedup_until='start' needs a dedup_key: give one."),
    ({"dedup_key": "a", "dedup_until": "now"}, "InvalidOption", 'dedup_until="now": give "start" or "end".'),
    (
        {"dedup_key": "a", "debounce": Debounce(1, 2), "on_duplicate": "raise"},
        "InvalidOption",
        "on_duplicate='raise' was given with a debounce, which decides that.",
    ),
    ({"debounce": Debounce(1, 2)}, "InvalidOption", "debounce"),
    ({"dedup_key": "a", "debounce": Debounce(1, 2), "delay": 1}, "InvalidOption", "delay"),
    ({"tags": ["a", ""]}, "InvalidOption", "tags= has"),
    ({"tags": "a"}, "InvalidOption", 'tags="a" is a str: give a list, as in tags=["nightly"].'),
    ({"tags": [5]}, "InvalidOption", "tags= has 5, which is an int, not a str."),
    ({"tags": [" a"]}, "InvalidOption", 'tags= has " a", which begins or ends with a space.'),
    ({"tags": [str(n) for n in range(21)]}, "InvalidOption", "tags= has 21 tags, at most 20."),
    ({"limit_key": ""}, "InvalidOption", 'limit_key="" is empty.'),
    ({"limit_key": 7}, "InvalidOption", "limit_key=7 is an int, not a str."),
    ({"correlation_id": "a\tb"}, "InvalidOption", "has characters that cannot be printed."),
]
#: Payloads that are refused.
UNFIT: list[tuple[Any, str, str]] = [
    ([], "InvalidPayload", 'email: the payload is a list: give its fields by name, as in {"field": value}'),
    ({}, "InvalidPayload", 'email: missing field "to" - at $.to'),
    ({"to": 5}, "InvalidPayload", "email: expected str, got int - at $.to"),
    ({"to": "a", "number": 1.5}, "InvalidPayload", "email: expected int, got float - at $.number"),
    ({"to": "a", "number": 1.0}, "InvalidPayload", "email: expected int, got float - at $.number"),
    ({"to": "a", "tags": {}}, "InvalidPayload", "email: expected array | null, got object - at $.tags"),
    ({"to": "a", "tags": ["b", 5]}, "InvalidPayload", "email: expected str, got int - at $.tags["),
    ({"to": "a", "cc": "b"}, "InvalidPayload", 'email: unknown field "cc"'),
    ({"to": "k" * 256}, "InvalidPayload", "has 262 characters, at most 255"),
    ({"to": "a", "tags": ["b" * 2**20]}, "PayloadTooLarge", ", at most 1,048,576 (max_payload_bytes)."),
]

pytestmark = pytest.mark.direct("it listens")


@pytest.fixture
async def shop(dsn: str, connection: Connection) -> AsyncGenerator[Shop]:
    """Declared by a runner that has ended."""
    made = Shop(dsn, connection)
    async with made.jobs:
        async with made.jobs.runner():
            pass
        await connection.add_listener(made.jobs.lifecycle.texts().channel, made.hear)
        yield made
        await connection.reset()
    assert made.broken == []


def test_every_option_is_in_the_table() -> None:
    for type, left_out in (("note", {"connection", "limit_key"}), ("email", {"connection"})):
        assert {name for case in CASES if case.type == type for name in case.options} >= KNOWN - left_out


async def test_every_option_through_every_door_writes_the_same_rows_and_tells_once(shop: Shop) -> None:
    own = Shop(shop.dsn, shop.connection)
    expected: list[list[Any]] = []
    async with own.jobs:
        for case in CASES:
            for payload in case.payloads:
                await own.enqueue(case.type, payload, case.options)
            expected.append(alike(await own.written(), case.options))
            await own.empty()
    await shop.all_heard()  # what its notifier has sent until its end
    async with shop.doors() as doors:
        for name, door in doors.items():
            for case, rows in zip(CASES, expected, strict=True):
                with shop.cell(name, case):
                    await _check_case(shop, door, case, rows)


async def _check_case(shop: Shop, door: Door, case: Case, expected: list[Any]) -> None:
    try:
        ids = [await door.enqueue(case.type, payload, case.options) for payload in case.payloads]
        assert not any((await shop.written()).values()), "nothing is there before the commit"
        await door.commit()
        told, rows = await shop.all_heard(), await shop.written()
        assert len(set(told)) == len(told), "each queue is told once"
        assert case.told is None or set(map(without_lot, told)) == case.told
        assert {row["id"] for row in rows["jobs"]} == {*ids}
        assert alike(rows, case.options) == expected
    except BaseException:
        await door.rollback()
        raise
    finally:
        await shop.empty()


async def test_nothing_is_left_after_a_rollback_through_every_door(shop: Shop) -> None:
    async with shop.doors() as doors:
        for name, door in doors.items():
            for case in CASES:
                with shop.cell(name, case):
                    await door.enqueue(case.type, {"to": "a"}, case.options)
            await door.rollback()
            with shop.cell(name, "rollback"):
                assert not any((await shop.written()).values())
                assert await shop.all_heard() == []


async def test_every_door_refuses_the_same_options_and_payloads(shop: Shop) -> None:
    """In the same words, but for SQL, which writes options in another way; and the transaction goes on."""
    given: list[tuple[str, Any, Options, str, str]] = [
        ("emial", {"to": "a"}, {}, "UnknownType", "emial"),
        ("note", {"to": "a"}, {"lane": "fast"}, "UnknownLane", 'note: lane "fast" is not a lane of queue "default" (none).'),
        *(("email", {"to": "a"}, options, error, text) for options, error, text in REFUSED),
        ("note", {"to": "a"}, {"limit_key": "k"}, "InvalidOption", 'limit_key="k" was given for note, but it has no limit.'),
        *(("email", payload, {}, error, text) for payload, error, text in UNFIT),
    ]
    async with shop.doors() as doors:
        await shop.connection.execute("CREATE TABLE public.mine (door text)")
        for name, door in doors.items():
            await door.execute(f"INSERT INTO public.mine VALUES ('{name}')")
        for type, payload, options, error, text in given:
            with pytest.raises(EnqueueError) as own:
                await shop.enqueue(type, payload, options)
            for name, door in doors.items():
                with shop.cell(name, (payload, options)):
                    said = await _refusal(door, type, payload, options)
                    assert said[0] == error == own.value.__class__.__name__
                    assert text in said[1]
                    assert name == "SQL" or said[1] == str(own.value)
        assert not any((await shop.written()).values())
        for door in doors.values():
            await door.commit()
    assert {row["door"] for row in await shop.connection.fetch("SELECT door FROM public.mine")} == {*doors}


async def _refusal(door: Door, type: str, payload: Any, options: Options) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        await door.enqueue(type, payload, options)
    name, text = refused.value.args
    return name, text


def test_a_server_that_is_too_old_for_django_has_every_other_door(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for least, missing in (((14,), set[str]()), ((99,), {"Django"})):
        monkeypatch.setattr(DatabaseFeatures, "minimum_database_version", least)
        assert (django_takes(dsn), DOORS.keys() - doors_to(dsn).keys()) == (not missing, missing)


async def test_every_door_returns_replaces_and_refuses_duplicates(shop: Shop) -> None:
    async with shop.doors() as doors:
        for name, door in doors.items():
            first = await shop.enqueue("email", {"to": "a", "number": 1}, {"dedup_key": "d", "delay": 60})
            with pytest.raises(EnqueueError) as own:
                await shop.enqueue("email", {"to": "a"}, {"dedup_key": "d", "on_duplicate": "raise"})
            with shop.cell(name, "duplicates"):
                assert await door.enqueue("email", {"to": "a", "number": 2}, {"dedup_key": "d"}) == first
                replacing = {"dedup_key": "d", "on_duplicate": "replace"}
                assert await door.enqueue("email", {"to": "a", "number": 3}, replacing) == first
                raising = {"dedup_key": "d", "on_duplicate": "raise"}
                assert await _refusal(door, "email", {"to": "a"}, raising) == ("DuplicateJob", str(own.value))
                moved = f"email \"d\" is job {first}, which has another serialization key than 'inbox_b'"
                error, text = await _refusal(door, "email", {"to": "b"}, replacing)
                assert (error, moved in text) == ("InvalidOption", True)
                await door.commit()
                [row] = (await shop.written())["jobs"]
                assert json.loads(row["payload"])["number"] == 3
            await door.rollback()
            await shop.empty()


async def test_keyed_jobs_join_in_the_order_of_commits_through_every_door(shop: Shop) -> None:
    async with shop.doors() as doors, DOORS["Session on psycopg"](shop.jobs, shop.dsn) as other:
        for name, door in doors.items():
            first = await door.enqueue("note", {"to": "a"}, {"serialization_key": "k"})
            second = await other.enqueue("note", {"to": "b"}, {"serialization_key": "k"})
            await other.commit()
            await door.commit()
            with shop.cell(name, "order"):
                line = sorted((await shop.written())["serialized_jobs"], key=lambda row: row["place"])
                assert [row["id"] for row in line] == [second, first]
            await shop.empty()


async def test_a_runner_is_told_once_after_the_commit_through_every_door(shop: Shop) -> None:
    async with shop.doors() as doors, shop.jobs.runner():
        for name, door in doors.items():
            await shop.all_heard()
            shop.ran.clear()
            ids = [await door.enqueue("email", {"to": f"{name} {number}"}, {"priority": 200}) for number in range(3)]
            with shop.cell(name, "runner"):
                assert (shop.ran, [one for one in shop.heard if without_lot(one).startswith("q:")]) == ([], [])
                await door.commit()
                ran = partial(lambda expected: sorted(shop.ran) == expected, sorted(ids))
                await eventually(ran, description="all of them ran, long before a poll")
                # (once more when a promoter has opened the keys of their limit)
                assert [*map(without_lot, await shop.all_heard())].count("q:mail") in {1, 2}
