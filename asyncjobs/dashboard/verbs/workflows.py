"""Verbs on workflows: cancel, retry."""

from typing import Final

from asyncjobs.dashboard.forms import an_id
from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Question, Verb


async def _ask_cancel(deed: Deed) -> Question:
    flow = await deed.admin.workflow(an_id(deed.form.needed("id")))
    details = [f"{flow.missing:,} of its {flow.size:,} jobs have not ended. Those that run are asked to end."]
    return Question(
        f'Cancel workflow {flow.id} "{flow.name}"?', f"Cancel {flow.missing:,} jobs", details, nothing=flow.ended_at is not None
    )


async def _cancel(deed: Deed) -> Outcome:
    flow_id = an_id(deed.form.needed("id"))
    outcome = await deed.admin.cancel_workflow(flow_id)
    said = {"requested": "is being cancelled", "cancelling": "was being cancelled before", "ended": "had ended"}
    return Outcome(f"Workflow {flow_id} {said.get(outcome, outcome)}.", outcome == "requested")


async def _ask_retry(deed: Deed) -> Question:
    flow = await deed.admin.workflow(an_id(deed.form.needed("id")))
    return Question(
        f'Retry what died in workflow {flow.id} "{flow.name}"?', "Retry it",
        [f"{flow.dead:,} of its {flow.size:,} jobs died or were cancelled.", "What their ends cancelled comes back by itself.",
         "What has run is not undone."], nothing=not flow.dead,
    )  # fmt: skip


async def _retry(deed: Deed) -> Outcome:
    flow_id = an_id(deed.form.needed("id"))
    done = await deed.admin.retry_workflow(flow_id)
    left = f", {len(done.left):,} were left" if done.left else ""
    return Outcome(f"Workflow {flow_id}: {len(done.retried):,} jobs retried{left}.", bool(done.retried))


VERBS: Final = [
    Verb("workflows/cancel", _cancel, ("id", "message"), _ask_cancel),
    Verb("workflows/retry", _retry, ("id", "message"), _ask_retry),
]
