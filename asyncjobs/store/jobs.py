"""The statements of a job's life: enqueue, finish (ack, advance, claim), read back, give back, read."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from asyncjobs.model.chance import CHANCE
from asyncjobs.model.claim import FRONT, Ack, Claimed, Finished, Probe, Scan
from asyncjobs.model.ending import AwaitedKind, Ending
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import ORDINARY_PRIORITY, Did, Enqueued, NewRow
from asyncjobs.model.outcome import COMPLETED
from asyncjobs.model.trace import own_trace
from asyncjobs.store import door, plain
from asyncjobs.store.database import Link, Record
from asyncjobs.store.failures import UnreadableAnswer
from asyncjobs.store.reading import readable

#: What one list of rows is cut at, since the server has all of one list in memory, in up to some thirty times of its size.
_LIST: Final = 1_000
#: What is answered of a member of a workflow, before the workflow's id.
_MEMBER: Final = "member "
#: What is answered of a follower; of a member, with its workflow's id behind it.
_FOLLOWER: Final = "follower"
#: And of a job that has a limit and is no member, before its limit key.
_LIMITED: Final = "limit "
#: What is answered of a job of a stub: its `on_dead`, and of a member, behind that, of which workflow.
_ASK: Final = "ask"
_LIST_CHARACTERS: Final = 1 << 20
_by_id: Final = attrgetter("id")
_token: Final = attrgetter("token")
_outcome: Final = attrgetter("outcome")
_result: Final = attrgetter("result")
_result_dropped: Final = attrgetter("result_dropped")


class Refused(msgspec.Struct, frozen=True):
    """A row that must not be written: its dedup key is taken, or it would replace a job that has another serialization key."""

    at: int  # its ordinal, from 0
    status: str | None  # of the job in its way; None when that is another row of the same call


class Expired(msgspec.Struct, frozen=True):
    """What a claim has ended, since it had expired: ids and types. In these queues next heads of keys became pending."""

    ended: list[tuple[int, str]]
    queues: list[str]


class EnqueueAnswer(msgspec.Struct, frozen=True):
    """What became of a batch."""

    enqueued: list[Enqueued]
    refused: list[Refused]  # if there are any, nothing was written at all
    taken: list[int]  # if other jobs have some of the ids: ordinals (from 0) of the rows that were not written
    reserved: list[int]


async def reserve_ids(link: Link, count: int) -> list[int]:
    """Fresh ids, for the rows of an enqueue that can be made again."""
    if link.database.by_door:
        return await door.give_ids(link, count)
    (row,) = await link.fetch("reserve_ids", count)
    ids: list[int] = row["ids"]
    return ids


def fresh_token() -> int:
    """A random number, by which the rows of an enqueue are known as its own."""
    return CHANCE.getrandbits(64) - 2**63


async def enqueue(
    link: Link,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    tokens: Sequence[int],
    *,
    again: bool = False,
    reserve: int = 0,
    lock_timeout: str | None = None,
    timeout: float | None = None,
) -> EnqueueAnswer:
    """Write the rows in one transaction; `tokens` identify them if the call has to be made `again` with the same ids."""
    if link.database.by_door:
        return enqueue_answer(
            await door.enqueue(link, rows, ids, tokens, again=again, lock_timeout=lock_timeout, timeout=timeout)
        )
    if len(rows) == 1 and not again and _is_plain(rows[0]):
        next_id, is_due = await plain.enqueue_one(link, rows[0], ids[0], tokens[0], timeout=timeout)
        return EnqueueAnswer([Enqueued(ids[0], True, is_due)], [], [], [next_id])
    if not again and await plain.are_alike(rows, tokens):
        reserved, is_due = await plain.enqueue_alike(link, rows, ids, tokens[0], reserve=reserve, timeout=timeout)
        return EnqueueAnswer([Enqueued(job_id, True, is_due) for job_id in ids], [], [], reserved)
    if not again and all(map(_is_plain, rows)) and plain.fit_in_one_list(rows):
        reserved, later = await plain.enqueue_plain(link, rows, ids, tokens, reserve=reserve, timeout=timeout)
        return EnqueueAnswer(_enqueued(ids, {}, later), [], [], reserved)
    record = await link.fetch_row("enqueue", ids, tokens, await _documents(rows), again, reserve, lock_timeout, timeout=timeout)
    assert record is not None  # noqa: S101 - a function with OUT parameters returns exactly one row
    answer = enqueue_answer(dict(record))
    if again:  # an earlier try may have written those that have a time when it had not come
        timed = [row.run_at is not None or row.delay_seconds is not None for row in rows]
        enqueued = [
            msgspec.structs.replace(one, is_due=None if has else True) for one, has in zip(answer.enqueued, timed, strict=True)
        ]
        answer = msgspec.structs.replace(answer, enqueued=enqueued)
    return answer


async def _documents(rows: Sequence[NewRow]) -> list[str]:
    """The rows as the server reads them: lists of JSON, each so long that others may have the event loop in between."""
    size = min(max(_LIST_CHARACTERS // max(len(row.payload) for row in rows), 1), _LIST)
    documents: list[str] = []
    for start in range(0, len(rows), size):
        if start:
            await asyncio.sleep(0)
        documents.append(msgspec.json.encode(rows[start : start + size]).decode())
    return documents


def _is_plain(row: NewRow) -> bool:
    return row.dedup_key is None and row.serialization_key is None and row.limit_key is None


def _enqueued(ids: Sequence[int], existing: Mapping[int, Did], later: Sequence[int] | None) -> list[Enqueued]:
    if not existing and not later:
        return [Enqueued(job_id, True) for job_id in ids]
    not_yet = frozenset(later or ())
    return [
        Enqueued(job_id, at not in existing, at not in not_yet, existing.get(at, "made"))
        for at, job_id in enumerate(ids, start=1)
    ]


def enqueue_answer(record: Mapping[str, Any]) -> EnqueueAnswer:
    """The answer from what the server's function returned; its ordinals begin with 1."""
    return EnqueueAnswer(
        enqueued=_enqueued(record["ids"], dict(zip(record["existing"] or (), record["did"] or (), strict=True)), record["later"]),
        refused=[Refused(at - 1, status) for at, status in zip(record["refused"] or (), record["statuses"] or (), strict=True)],
        taken=[at - 1 for at in record["taken"] or ()],
        reserved=record["reserved"] or [],
    )


async def finish(
    link: Link,
    runner_id: int,
    acks: Sequence[Ack],
    scans: Sequence[Scan],
    types: Sequence[str],
    *,
    suspects: Sequence[bool],
    token_base: int,
    token_seq: int,
    max_errors: int,
    probes: Sequence[Probe] = (),
) -> Finished:
    """Write the acks, let their keys go on, and claim, in one commit. Acks are locked in the order of their ids. A lock that
    another transaction holds is waited for shortly, here and in the lean calls (then: an error with SQLSTATE 55P03).

    Each scan begins with what `probes` allow; their types are not among `types`. `suspects`: by scan, whether it may take one; of
    all scans one is claimed.
    """
    rows = await link.fetch_often(
        "finish", runner_id, *_ack_columns(acks), max_errors,
        [scan.queue for scan in scans], [scan.lane for scan in scans], [scan.limit for scan in scans],
        [scan.most_limited for scan in scans], [scan.start[0] for scan in scans], [scan.start[1] for scan in scans],
        types, suspects, token_base, token_seq, msgspec.json.encode(probes).decode() if probes else None, _followers(acks),
        _numbers(scan.ahead for scan in scans) if any(scan.ahead for scan in scans) else None,
    )  # fmt: skip
    finished = _finished(rows)
    # (where a probe's types may start is nothing to the scan of others)
    return msgspec.structs.replace(finished, past={}) if probes else finished


async def finish_one(
    link: Link, runner_id: int, ack: Ack, queue: str | None, types: Sequence[str], *, next_token: int
) -> Finished:
    """Write that an attempt completed, and let its key go on. If the key's next job is of `queue` (None: whatever it is) and of
    one of these types it is claimed with this token: there must be a free general slot for it.
    """
    outcome = ack.outcome
    rows = await link.fetch_often(
        "finish_one", runner_id, ack.id, ack.token, outcome.result, outcome.result_dropped, queue, types, next_token
    )
    return _finished(rows)


async def finish_completed(
    link: Link, runner_id: int, acks: Sequence[Ack], scan: Scan | None, types: Sequence[str], *, suspects: bool, token_base: int,
    token_seq: int,
) -> Finished:  # fmt: skip
    """`finish` where every ack is of an attempt that completed, and there is at most one scan, for general slots."""
    acks = sorted(acks, key=_token)
    outcomes = [*map(_outcome, acks)]
    has_results = outcomes.count(COMPLETED) < len(outcomes)
    priority, place = FRONT if scan is None else scan.start
    rows = await link.fetch_often(
        "finish_completed", runner_id, _numbers(map(_by_id, acks)), _numbers(map(_token, acks)),
        _some(outcomes, _result) if has_results else None, _some(outcomes, _result_dropped) if has_results else None,
        None if scan is None else scan.queue, 0 if scan is None else scan.limit,
        0 if scan is None else scan.most_limited, priority, place, types, suspects,
        token_base, token_seq, _followers(acks), 0 if scan is None else scan.ahead,
    )  # fmt: skip
    return _finished(rows)


def _followers(acks: Sequence[Ack]) -> str | None:
    found = [ack.id for ack in acks if ack.number]
    return _numbers(found) if found else None


async def skipped(
    link: Link, runner_id: int, starts: Mapping[tuple[str, str | None], tuple[int, int]], types: Sequence[str], *, suspects: bool
) -> set[tuple[str, str | None]]:
    """Those of the scans (queue, lane), each from behind its start, that would find a job if no rows were locked."""
    queues, lanes = [queue for queue, _ in starts], [lane for _, lane in starts]
    priorities, places = [priority for priority, _ in starts.values()], [place for _, place in starts.values()]
    rows = await link.fetch("skipped", runner_id, queues, lanes, types, suspects, priorities, places)
    return {(row["queue"], row["lane"]) for row in rows}


def _numbers(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _finished(rows: Sequence[Record]) -> Finished:
    try:
        return _read(rows)
    except Exception as error:
        raise UnreadableAnswer(f"the answer to a call that was carried out cannot be read: {error!r}") from error


def _read(rows: Sequence[Record]) -> Finished:
    claimed = [_claimed(row) if row[-1] is not None else Claimed(*row[1:-1]) for row in rows if row[0] == "job"]
    if len(claimed) == len(rows):
        return Finished(claimed, [], [], gone=False)
    claimed += [_limited(row) for row in rows if row[0].startswith(_LIMITED)]
    claimed += [_claimed(row, int(row[0][len(_MEMBER) :])) for row in rows if row[0].startswith(_MEMBER)]
    if len(claimed) == len(rows):
        return Finished(claimed, [], [], gone=False)
    lost = [row["token"] for row in rows if row["kind"] == "lost"]
    pending = [row for row in rows if row["kind"] == "head"]
    heads = [queue for row in pending for queue in [row["queue"]] * (row["scan"] or 1)]
    behind = [row for row in rows if row["kind"].startswith(_FOLLOWER)]
    followers = [_claimed(row, int(row["kind"][len(_FOLLOWER) :]) if row["kind"] != _FOLLOWER else None) for row in behind]
    asking = [_asking(row) for row in rows if row["kind"].startswith(_ASK)]
    ends = [row for row in rows if row["kind"] == "expired"]
    expired = [msgspec.json.decode(row["rest"], type=Expired) for row in ends]
    due = [float(row["rest"]) for row in rows if row["kind"] == "due"]
    gone = len(claimed) + len(followers) + len(lost) + len(pending) + len(asking) + len(expired) + len(due) < len(rows)
    return Finished(
        claimed, lost, [*heads, *(queue for one in expired for queue in one.queues)], gone=gone, asking=asking,
        expired=[job for one in expired for job in one.ended],
        past={row["scan"]: (row["priority"], row["place"]) for row in ends if row["place"] is not None},
        due_seconds=min(due, default=None), followers=followers,
        for_all=frozenset(row["queue"] for row in pending if row["scan"] is None),
        urgent=frozenset(row["queue"] for row in pending if row["priority"] is not None and row["priority"] < ORDINARY_PRIORITY),
    )  # fmt: skip


def _asking(row: Record) -> tuple[Claimed, str]:
    on_dead, _, workflow_id = row["kind"].rpartition(" ")
    if workflow_id.isdecimal():
        return _claimed(row, int(workflow_id)), on_dead
    return _claimed(row), row["kind"]


def _limited(row: Record) -> Claimed:
    claimed = _claimed(row)
    force_setattr(claimed, "limit_key", row[0][len(_LIMITED) :])
    return claimed


def _claimed(row: Record, workflow_id: int | None = None) -> Claimed:
    claimed = Claimed(*row[1:-1], *(() if row[-1] is None else msgspec.json.decode(row[-1])))
    if workflow_id is not None:
        force_setattr(claimed, "workflow_id", workflow_id)
    return claimed


async def ack_alone(link: Link, runner_id: int, ack: Ack, *, max_errors: int) -> Finished:
    """Write one outcome."""
    return await finish(link, runner_id, [ack], [], [], suspects=[], token_base=0, token_seq=0, max_errors=max_errors)


async def locked(link: Link, acks: Sequence[Ack]) -> frozenset[int]:
    """Those of their jobs whose rows another transaction holds."""
    return frozenset(row["id"] for row in await link.fetch("locked_jobs", [ack.id for ack in acks]))


async def set_progress(link: Link, progress: Sequence[tuple[int, int, str]]) -> list[int]:
    """Write (id, token, JSON text) of running attempts; the jobs whose rows are locked by others, and were skipped."""
    ids, tokens, texts = zip(*sorted(progress), strict=True)
    [(locked,)] = await link.fetch("set_progress", ids, tokens, texts)
    return locked  # type: ignore[no-any-return]


async def outlive(link: Link, outlived: Sequence[tuple[int, int, int, bool]]) -> None:
    """Write (id, token, marks, whether it is on probation no more) of running jobs that were lost before."""
    await link.fetch("outlive", *zip(*sorted(outlived), strict=True))


def _ack_columns(acks: Sequence[Ack]) -> list[list[Any] | None]:
    """The outcomes column by column, in the order of their ids: rows are locked in that order."""
    acks = sorted(acks, key=_by_id)
    return [
        [ack.id for ack in acks],
        [ack.token for ack in acks],
        _some(acks, _as_json),
        _some(acks, lambda ack: ack.outcome.result),
    ]


def _as_json(ack: Ack) -> str | None:
    """The server's type `outcome`, without what is null; None when the attempt completed and there is nothing to say."""
    outcome = ack.outcome
    if outcome is COMPLETED and ack.progress is None:
        return None
    said: dict[str, Any] = {
        "status": None if ack.status == "completed" else ack.status,
        "delay": outcome.delay_seconds or None,
        "refund": outcome.kind in {"snooze", "interrupted"} or None,
        "snooze": outcome.kind == "snooze" or None,
        "dropped": outcome.result_dropped,
        "message": outcome.message,
        "error": outcome.error,
        "unbegun": None if outcome.is_begun else True,
        "empties": outcome.empties or None,
        "progress": None if ack.progress is None else msgspec.Raw(ack.progress.encode()),
    }
    said = {name: value for name, value in said.items() if value is not None}
    return msgspec.json.encode(said).decode() if said else None


def _some(outcomes: Sequence[Any], value: Callable[[Any], Any]) -> list[Any] | None:
    """The column of values, or None when all are None."""
    values = [value(outcome) for outcome in outcomes]
    return values if any(item is not None for item in values) else None


async def still_processing(link: Link, acks: Sequence[Ack]) -> dict[int, bool]:
    """By token, whether an ack is still to be written (True) or was written (False). A missing token: the claim is lost."""
    rows = await link.fetch("still_processing", [ack.id for ack in acks], [ack.token for ack in acks])
    return {row["token"]: row["is_ours"] for row in rows}


async def give_back(link: Link, runner_id: int, running: Sequence[int], *, last_token: int) -> list[tuple[int, str]]:
    """Give back the runner's processing jobs that are not among `running`; returns (id, queue) of each.

    `last_token` is the last that it drew: a call that is carried out late does not touch what is claimed after it was sent.
    """
    return [(row["id"], row["queue"]) for row in await link.fetch("give_back", runner_id, running, last_token)]


async def was_completed(link: Link, job_id: int, token: int, *, patience_seconds: float) -> bool | None:
    """Whether a completion inside a handler's transaction was committed. None: it is open after so long, or the claim is lost."""
    row = await link.fetch_row("was_completed", job_id, token, f"{int(patience_seconds * 1000)}ms")
    return None if row is None else row["was_completed"]


async def verify_completed(link: Link, job_id: int, token: int) -> list[str] | None:
    """Settle a job that was completed inside its handler's transaction: its key and dedup key are free now. Returns the queue
    of each job that became pending; None when the completion was not committed.
    """
    row = await link.fetch_row("verify_completed", job_id, token)
    return list(row["queues"] or ()) if row is not None and row["completed"] else None


async def status(link: Link, job_id: int) -> str | None:
    """The job's status, or None when there is no such job."""
    row = await link.fetch_row("final_status", job_id)
    return None if row is None else row["status"]


async def ended_among(link: Link, ids: Sequence[int], *, gone: bool) -> list[Ending]:
    """Those of the jobs that have ended, and with `gone` those that are not there; the row of what ended without a result."""
    endings = [Ending(*row) for row in await link.fetch("ended_among", ids, gone)]
    failed = [one.id for one in endings if one.status in {"dead", "cancelled"}]
    if not failed:
        return endings
    found = {row["id"]: to_job(row) for row in await link.fetch("jobs_by_id", failed)}
    seen = [_with_job(one, found.get(one.id)) if one.status in {"dead", "cancelled"} else one for one in endings]
    return [one for one in seen if one is not None]


def _with_job(ending: Ending, job: Job | None) -> Ending | None:
    """The ending with the job's row, which was read a moment later: it may have been pruned, or retried (then it goes on)."""
    if job is None:
        return Ending(ending.id)
    return msgspec.structs.replace(ending, status=job.status, job=job) if job.is_final else None


async def awaited_kinds(link: Link, ids: Sequence[int], key: str | None) -> list[AwaitedKind]:
    """Of the jobs that have not started, one of each kind; `key`: of the handler that waits for them."""
    return [AwaitedKind(*row) for row in await link.fetch("awaited_kinds", ids, key)]


async def get(link: Link, job_id: int) -> Job | None:
    """The job, or None when there is none with this id (not committed yet, rolled back, or pruned)."""
    row = await link.fetch_row("job", job_id)
    return None if row is None else to_job(row)


def to_job(row: Record) -> Job:
    """A Job from a row with the columns of `job.sql`."""
    values = readable(dict(row))
    values["correlation_id"] = values["correlation_id"] or own_trace(values["id"])
    return Job(**values)
