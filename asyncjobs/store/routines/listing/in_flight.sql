-- The jobs that are processing, of one runner or (null) of all, and which of them wait for a slot. No row says that an attempt has
-- begun: it would be a write for each job. But a runner starts them in the order of their claims, and has so many slots: those of a
-- lane fill the slots that are kept for it, then the general ones. What has ended and is not yet written counts as if it ran. Followers
-- (routines/finish) wait, and have no slot.
CREATE FUNCTION asyncjobs.in_flight(_runner bigint) RETURNS TABLE (id bigint, queue text, lane text, runner_id bigint, is_ahead boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH claimed AS (
        SELECT j.id, j.queue, j.lane, j.runner_id, j.started_at, j.priority, j.place, r.slots -> j.queue AS slots,
            coalesce((r.prefetch ->> j.queue)::integer, 0) AS prefetch, s.id IS NOT NULL AS follows,
            row_number() OVER (PARTITION BY j.runner_id, j.queue, j.lane, s.id IS NOT NULL ORDER BY j.started_at, j.priority, j.place) AS number
        FROM asyncjobs.jobs AS j LEFT JOIN asyncjobs.runners AS r ON r.id = j.runner_id
        LEFT JOIN asyncjobs.serialized_jobs AS s ON s.id = j.id AND s.dispatched_at IS NULL AND j.serialization_key IS NOT NULL
        WHERE j.runner_id IS NOT NULL AND j.status = 'processing' AND (_runner IS NULL OR j.runner_id = _runner)),
    placed AS (
        SELECT c.id, c.queue, c.lane, c.runner_id, c.started_at, c.priority, c.place, c.slots, c.prefetch,
            c.follows, NOT c.follows AND c.number > coalesce((c.slots ->> c.lane)::integer, 0) AS is_general FROM claimed AS c)
    SELECT p.id, p.queue, p.lane, p.runner_id, p.follows OR (p.prefetch > 0 AND p.is_general AND
        count(*) FILTER (WHERE p.is_general) OVER (PARTITION BY p.runner_id, p.queue ORDER BY p.started_at, p.priority, p.place)
            > (p.slots ->> '')::integer)
    FROM placed AS p;
END $$;
