"""`asyncjobs keys`: serialization keys, their lines, and what blocks them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.filters import LIMIT
from asyncjobs.cli.kit import ACTS, YES, Asked, Choice, Group, argument, found, group, option, verb
from asyncjobs.model.status import in_words
from asyncjobs.store.serialized import KeyState, Place

_KEY = argument("key")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    keys = group("keys", "Look at serialization keys; release, pause or purge them.", parent=program)
    verb(
        keys,
        "list",
        option("--after", default="", metavar="KEY", help="Only keys behind this one: the next page."),
        option("--blocked", is_flag=True, help="Only keys of which nothing moves by itself."),
        option("--order", type=Choice(("age", "depth")), default="age", show_default=True, help="Of blocked keys: which first."),
        LIMIT,
    )(list_keys)
    verb(keys, "show", _KEY, LIMIT)(show)
    verb(keys, "release", _KEY, *ACTS, YES)(release)
    verb(keys, "pause", _KEY, *ACTS)(pause)
    verb(keys, "resume", _KEY, *ACTS)(resume)
    verb(keys, "purge", _KEY, *ACTS, YES)(purge)


async def list_keys(asked: Asked, after: str, order: Literal["age", "depth"], limit: int, *, blocked: bool) -> int | None:
    """List the keys that have jobs, by name, and what blocks them; with --blocked those that are stuck, for longest first."""
    if blocked:
        stuck = await asked.admin.stuck_keys(order=order, limit=limit)
        return found(asked, "key", list(map(_data, stuck)), lambda: _table(stuck), filtered=True)
    keys = await asked.admin.keys(after=after, limit=limit)
    if len(keys) == limit:
        asked.note(f"there may be more: --after {keys[-1].key}")
    return found(asked, "key", list(map(_data, keys)), lambda: _table(keys), filtered=False)


async def show(asked: Asked, key: str, limit: int) -> None:
    """Show a key and the line behind it."""
    state, line = await asked.admin.key(key), await asked.admin.line(key, limit=limit)
    asked.answer({"state": _data(state), "line": line}, lambda: f"{screen.record(_data(state))}\n\n{_line(line)}")


async def release(asked: Asked, key: str) -> None:
    """Let a halted key go on without its head, which stays dead."""
    state = await asked.admin.key(key)
    if state.halted_at is not None:
        asked.sure(f"job {state.head_id} stays dead, and {state.depth - 1:,} jobs behind it go on", dry_run_helps=False)
    job_id = await asked.admin.release_key(key)
    asked.answer({"key": key, "halted_id": job_id}, lambda: f"key {screen.text(key)} goes on; job {job_id} stays dead")


async def pause(asked: Asked, key: str) -> None:
    """Run nothing more of a key until it is resumed, also after restarts. What runs goes on."""
    is_new = await asked.admin.pause_key(key)
    was = "is paused" if is_new else "was paused before"
    asked.answer({"key": key, "is_new": is_new}, lambda: f"key {screen.text(key)} {was}")


async def resume(asked: Asked, key: str) -> None:
    """Let a paused key go on."""
    resumed = await asked.admin.resume_key(key)
    was = "goes on" if resumed else "was not paused"
    asked.answer({"key": key, "resumed": resumed}, lambda: f"key {screen.text(key)} {was}")


async def purge(asked: Asked, key: str) -> None:
    """Cancel every job of a key: those that wait, and its head."""
    state = await asked.admin.key(key)
    asked.sure(f"this would cancel {state.depth:,} jobs of key {screen.text(key)}", dry_run_helps=False)
    cancelled = await asked.admin.purge_key(key)
    asked.answer({"key": key, "cancelled": cancelled}, lambda: f"{len(cancelled):,} jobs cancelled")


def _table(keys: Sequence[KeyState]) -> str:
    rows = [
        (
            one.key,
            one.depth,
            one.head_id,
            one.head_type,
            in_words(one.head_status),
            one.oldest_at,
            one.blocked,
        )
        for one in keys
    ]
    return screen.table(("key", "jobs", "head", "type", "status", "oldest", "blocked"), rows)


def _data(state: KeyState) -> dict[str, Any]:
    return msgspec.structs.asdict(state) | {"blocked": state.blocked}


def _line(line: Sequence[Place]) -> str:
    return screen.table(
        ("job", "type", "made", "dispatched"), [(one.id, one.type, one.created_at, one.dispatched) for one in line]
    )
