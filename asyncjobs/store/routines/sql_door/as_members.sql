-- These rows as members of a workflow: jobs of their own, no other's.
CREATE FUNCTION asyncjobs.as_members(_who text, _rows asyncjobs.new_job[], _workflow bigint, _correlation text) RETURNS asyncjobs.new_job[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _at integer;
BEGIN
    FOR _at IN 1 .. cardinality(_rows) LOOP
        IF coalesce(_rows[_at].on_duplicate, 'raise') <> 'raise' THEN
            PERFORM asyncjobs.refuse('InvalidOption', format('%s has on_duplicate=%L, or a debounce: a member is a job of its own, no other''s.',
                _who, _rows[_at].on_duplicate), 'Leave it out.');
        END IF;
        _rows[_at].on_duplicate := 'raise';
        _rows[_at].workflow_id := _workflow;
        _rows[_at].correlation_id := coalesce(_rows[_at].correlation_id, _correlation);
    END LOOP;
    RETURN _rows;
END $$;
