-- Sequences that stand behind their rows, as after a switch-over to a copy that logical replication made: it copies rows, not sequences.
-- What is drawn then belongs to another row, or comes before what waits. Looks at the newest rows only, so `reached` is a place that
-- rows have, not the last of them. Rows with ids beyond 2^62 are a stranger's: no sequence goes there.
CREATE FUNCTION asyncjobs.sequences_behind() RETURNS TABLE (name text, sequence regclass, last_value bigint, reached bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    _most CONSTANT bigint := 4611686018427387904;
    _found record;
BEGIN
    FOR _found IN
        SELECT 'asyncjobs.jobs_id_seq'::regclass AS sequence, greatest(
            (SELECT max(j.id) FROM asyncjobs.jobs AS j WHERE j.id < _most),
            (SELECT max(d.job_id) FROM asyncjobs.dead_letter_jobs AS d WHERE d.job_id < _most)) AS reached, NULL AS look
        UNION ALL
        SELECT 'asyncjobs.place_seq'::regclass, greatest(
            (SELECT n.place FROM (SELECT j.place FROM asyncjobs.jobs AS j WHERE j.id < _most ORDER BY j.id DESC LIMIT 1) AS n WHERE n.place < _most),
            (SELECT n.place FROM (SELECT s.place FROM asyncjobs.serialized_jobs AS s WHERE s.id < _most ORDER BY s.id DESC LIMIT 1) AS n
             WHERE n.place < _most)), NULL
        UNION ALL
        SELECT pg_get_serial_sequence(a.attrelid::regclass::text, a.attname)::regclass, NULL,
            format('SELECT max(t.%1$I) FROM %2$s AS t WHERE t.%1$I < %3$s', a.attname, a.attrelid::regclass, _most)
        FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
        WHERE a.attidentity <> '' AND c.relnamespace = (SELECT o.relnamespace FROM pg_catalog.pg_class AS o WHERE o.oid = 'asyncjobs.jobs'::regclass)
    LOOP
        IF _found.look IS NOT NULL THEN
            EXECUTE _found.look INTO _found.reached;
        END IF;
        sequence := _found.sequence;
        name := (SELECT c.relname FROM pg_catalog.pg_class AS c WHERE c.oid = _found.sequence);
        reached := _found.reached;
        last_value := coalesce(pg_sequence_last_value(_found.sequence), 0);  -- after the rows: it only grows
        IF last_value < reached THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
