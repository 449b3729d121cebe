-- Where jobs of these are pending, and how many (`scan`; null where suspects are, of which each runner takes one): those queues are to be
-- notified.
CREATE FUNCTION asyncjobs.heads(_ids bigint[]) RETURNS SETOF asyncjobs.answer LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT 'head', CASE WHEN max(j.suspicion) = 0 THEN count(1)::integer END, j.queue, NULL::bigint, NULL::bigint, NULL, NULL::integer, NULL::jsonb, NULL::smallint,
        NULL::bigint, NULL::integer, NULL::integer, NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL,
        NULL::jsonb
    FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status || '' = 'pending' GROUP BY j.queue;  -- as routines/keys says
END;
