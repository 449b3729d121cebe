-- Where jobs of these are pending, and how many (`scan`; null where suspects are, of which each runner takes one): those queues are to be
-- notified. `priority` is the best of them; a member of a workflow, whose place is an old one, is before all (`model/scan.py`).
CREATE FUNCTION asyncjobs.heads(_ids bigint[]) RETURNS SETOF asyncjobs.answer LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT 'head', CASE WHEN max(j.suspicion) = 0 THEN count(1)::integer END, j.queue, NULL::bigint, NULL::bigint, NULL, NULL::integer, NULL::jsonb,
        min(CASE WHEN j.workflow_id IS NULL THEN j.priority ELSE -32768 END)::smallint, NULL::bigint, NULL::integer, NULL::integer, NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL,
        NULL::jsonb
    FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status || '' = 'pending' GROUP BY j.queue;  -- as routines/keys says
END;
