-- After the values of a limit may have changed, in the same transaction: a queue with a total has its row in `limit_turns`, and every key of a limit is
-- looked at again by the promoters.
CREATE FUNCTION asyncjobs.apply_limit(_kind text, _name text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _has_total boolean := EXISTS (SELECT FROM asyncjobs.limits AS l WHERE l.kind = _kind AND l.name = _name AND l.total IS NOT NULL);
BEGIN
    IF _kind = 'queue' THEN
        IF _has_total THEN
            INSERT INTO asyncjobs.limit_turns (key, queue, name) VALUES ('', _name, '') ON CONFLICT (key, queue, lane) DO NOTHING;
        ELSE
            DELETE FROM asyncjobs.limit_turns AS t WHERE t.key = '' AND t.queue = _name;
        END IF;
        PERFORM asyncjobs.tell('q:' || _name);
        RETURN;
    END IF;
    INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed)
    SELECT t.key, t.queue, t.lane, true FROM asyncjobs.limit_turns AS t WHERE t.name = _name AND t.state IN ('full', 'closed')
    UNION SELECT _name, '', '', true FROM asyncjobs.limits AS l WHERE l.kind = 'limit' AND l.name = _name AND l.is_full;
    IF FOUND THEN
        PERFORM asyncjobs.tell('d');
    END IF;
END $$;
