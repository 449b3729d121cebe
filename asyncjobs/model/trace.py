"""The correlation id of a job that was given none: its own.

So each user action can be traced: what a job's handler enqueues has the job's correlation id. It is made where a row is read, and
not stored with it: an entry in an index, for each version of the row, would cost every enqueue, claim and outcome. Jobs that are
made by SQL have theirs without knowing. (`routines/listing/own_trace.sql` says the same.)
"""


def own_trace(job_id: int) -> str:
    """The correlation id of this job, if it was given none."""
    return f"job-{job_id}"
