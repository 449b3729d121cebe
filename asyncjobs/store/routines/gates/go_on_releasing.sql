-- Go on with gates that have not done with their dependents; they are locked. Returns the jobs that became pending.
CREATE FUNCTION asyncjobs.go_on_releasing(_gates bigint[]) RETURNS bigint[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _open bigint[];
    _closed bigint[];
    _pending bigint[];
BEGIN
    SELECT array_agg(g.id) FILTER (WHERE g.missing = 0), array_agg(g.id) FILTER (WHERE g.missing > 0 OR g.dead = 0) INTO _open, _closed
    FROM asyncjobs.gates AS g WHERE g.id = ANY (_gates) AND g.releasing;
    IF _closed IS NOT NULL THEN
        PERFORM asyncjobs.take_dependents_back(_closed);
    END IF;
    IF _open IS NOT NULL THEN
        SELECT r.freed INTO _pending FROM asyncjobs.release_dependents(_open, false) AS r;
    END IF;
    PERFORM asyncjobs.note_releasing(_gates);
    RETURN _pending;
END $$;
