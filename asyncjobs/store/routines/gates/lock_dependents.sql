-- Lock at most 500 dependents of these gates that are in this state, those that nobody else has locked; `ids` is null when there are none.
-- `are_all`: no others are left. Those whose row is gone (a stranger deleted it) wait no more.
CREATE FUNCTION asyncjobs.lock_dependents(_gates bigint[], _state text, OUT ids bigint[], OUT are_all boolean) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _found bigint[];
BEGIN
    SELECT array_agg(f.job_id), array_agg(l.id) FILTER (WHERE l.id IS NOT NULL) INTO _found, ids
    FROM (SELECT DISTINCT d.job_id FROM asyncjobs.dependents AS d
          WHERE d.gate_id = ANY (_gates) AND d.state = _state AND d.state <> 'released' ORDER BY d.job_id LIMIT 500) AS f
    LEFT JOIN LATERAL (SELECT j.id FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[f.job_id]) FOR UPDATE SKIP LOCKED) AS l ON true;
    are_all := coalesce(cardinality(_found), 0) < 500 AND coalesce(cardinality(_found) = cardinality(ids), _found IS NULL);
    IF cardinality(_found) > coalesce(cardinality(ids), 0) THEN
        DELETE FROM asyncjobs.dependents AS d
        WHERE d.gate_id = ANY (_gates) AND d.job_id = ANY (_found)
          AND NOT EXISTS (SELECT FROM asyncjobs.jobs AS j WHERE j.id = ANY (ARRAY[d.job_id]));
    END IF;
END $$;
