"""Verbs on serialization keys: release, skip, purge. (Pause and resume are those of queues and types.)"""

from typing import Final

from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Question, Verb


async def _ask_release(deed: Deed) -> Question:
    state = await deed.admin.key(deed.form.needed("key"))
    return Question(
        f'Release key "{state.key}"?',
        "Release it",
        [f"Job {state.head_id} stays dead.", f"{state.depth - 1:,} jobs behind it go on in their order."],
    )


async def _release(deed: Deed) -> Outcome:
    key = deed.form.needed("key")
    job_id = await deed.admin.release_key(key)
    return Outcome(f'Key "{key}" goes on; job {job_id} stays dead.')


async def _ask_skip(deed: Deed) -> Question:
    state = await deed.admin.key(deed.form.needed("key"))
    details = [
        f"Its head is job {state.head_id} ({state.head_type}, {state.head_status}).",
        f"{state.depth - 1:,} jobs wait behind it.",
    ]
    if state.halted_at is not None:
        return Question(f'Let key "{state.key}" go on without its head?', "Skip the head", [*details, "The head stays dead."])
    return Question(f'Skip the head of key "{state.key}"?', "Cancel the head", [*details, "The head is cancelled."])


async def _skip(deed: Deed) -> Outcome:
    """The line goes on without its head: a halted key is released, any other head cancelled."""
    key = deed.form.needed("key")
    state = await deed.admin.key(key)
    if state.halted_at is not None:
        return await _release(deed)
    done = await deed.admin.cancel(state.head_id, deed.form.text("message"))
    is_change = done.outcome in {"cancelled", "requested"}
    ending = "runs, and was asked to end" if done.outcome == "requested" else f"is {done.outcome}"
    return Outcome(f'Key "{key}": job {state.head_id} {ending}.', is_change)


async def _ask_purge(deed: Deed) -> Question:
    state = await deed.admin.key(deed.form.needed("key"))
    return Question(f'Cancel all {state.depth:,} jobs of key "{state.key}"?', f"Cancel {state.depth:,} jobs")


async def _purge(deed: Deed) -> Outcome:
    key = deed.form.needed("key")
    cancelled = await deed.admin.purge_key(key, deed.form.text("message"))
    return Outcome(f'Key "{key}": {len(cancelled):,} jobs cancelled.', bool(cancelled))


VERBS: Final = [
    Verb("keys/release", _release, ("key", "message"), _ask_release),
    Verb("keys/skip", _skip, ("key", "message"), _ask_skip),
    Verb("keys/purge", _purge, ("key", "message"), _ask_purge),
]
