"""Queues in one word: `default=20,mail=8/fast:3/slow:2` is 20 slots for default, 8 for mail, of which 3 are lane fast's."""

import re
from collections.abc import Mapping

from asyncjobs.cli.failures import BadInput
from asyncjobs.open.run import names_of
from asyncjobs.settings import Lane, Queue

_QUEUE = re.compile(r"(?P<name>[^=/:]+?)(=(?P<slots>\d+)(?P<lanes>(/[^=/:]+:\d+)*))?")


def queues_of(text: str | None, known: Mapping[str, Queue]) -> list[Queue] | None:
    """The queues that the text names, None for no text. What it does not say (slots, lanes) is as the app has it.

    BadInput for what cannot be read, UnknownQueue for one that the app does not have.
    """
    if text is None or not text.strip():
        return None
    return [queue for part in text.split(",") if part.strip() for queue in _queues(part.strip(), known)]


def _queues(part: str, known: Mapping[str, Queue]) -> list[Queue]:
    match = _QUEUE.fullmatch(part)
    if match is None:
        raise BadInput(
            f'"{part}" is no queue: write name, name=slots or name=slots/lane:slots, as in "default=20,mail=8/fast:3".'
        )
    return [_as_said(known[name], match) for name in names_of(match["name"].strip(), known)]


def _as_said(queue: Queue, match: re.Match[str]) -> Queue:
    if match["slots"] is None:
        return queue
    lanes: dict[str, int | Lane] = dict(queue.lanes)
    if match["lanes"]:
        said = dict(lane.rsplit(":", 1) for lane in match["lanes"].split("/")[1:])
        lanes = {lane: _lane(int(slots), queue.lanes.get(lane)) for lane, slots in said.items()}
    return Queue(
        queue.name, concurrency=int(match["slots"]), lanes=lanes, prefetch=queue.prefetch, total=queue.total,
        ageing=queue.ageing_seconds,
    )  # fmt: skip


def _lane(slots: int, former: Lane | None) -> Lane:
    return Lane(slots, timeout=None if former is None else former.timeout_seconds)
