-- Where a job of these is pending: those queues are to be notified.
CREATE FUNCTION asyncjobs.heads(_ids bigint[]) RETURNS SETOF asyncjobs.answer LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT DISTINCT 'head', NULL::integer, j.queue, NULL::bigint, NULL::bigint, NULL, NULL::integer, NULL::jsonb, NULL::smallint,
        NULL::bigint, NULL::integer, NULL::integer, NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL,
        NULL::jsonb
    FROM asyncjobs.jobs AS j WHERE j.id = ANY (_ids) AND j.status || '' = 'pending';  -- as routines/keys says
END;
