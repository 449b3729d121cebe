-- Jobs that this transaction has just made pending: those of a paused type or key become paused, the others are returned. It is a
-- statement of its own since the one that made them pending may have waited for their rows (routines/keys: look under the lock).
CREATE FUNCTION asyncjobs.without_paused(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _paused bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM asyncjobs.pauses) THEN
        RETURN _ids;
    END IF;
    WITH held AS (
        UPDATE asyncjobs.jobs AS j SET status = 'paused'
        WHERE j.id = ANY (_ids) AND j.status = 'pending' AND asyncjobs.is_paused(j.type, j.serialization_key) RETURNING j.id)
    SELECT array_agg(h.id) INTO _paused FROM held AS h;
    RETURN ARRAY(SELECT u.id FROM unnest(_ids) AS u(id) WHERE _paused IS NULL OR u.id <> ALL (_paused));
END $$;
