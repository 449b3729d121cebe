"""What operators may do from the pages: every verb of `jobs.admin`, as a form that is sent to `/do/<noun>/<verb>`."""

from asyncjobs.dashboard.verbs import dead_letters, holding, jobs, keys, others, workflows
from asyncjobs.dashboard.verbs.verb import Verb

__all__ = ["VERBS", "Verb"]

VERBS: list[Verb] = [*jobs.VERBS, *keys.VERBS, *dead_letters.VERBS, *holding.VERBS, *others.VERBS, *workflows.VERBS]
