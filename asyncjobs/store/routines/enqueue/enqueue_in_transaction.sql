-- The door: the same with one JSON text in and one row out, for a connection of the caller's, whatever its driver, and for roles that
-- may enqueue and nothing else. It notifies inside the transaction if a channel is given.
--
-- 1. It runs with the rights of the schema's owner. So do the triggers at the commit. A role that enqueues needs a right to this and
--    to `give_ids`, and none to write to any table: of a row it says what an enqueue says; status, place and key's line are decided here.
-- 2. Ids of the caller's (on connections of asyncjobs' own, where a call is made again after its answer was lost) come with the proof
--    that the database gave them: with an id of its choice a role could put its own row in front of another's job of a key.
-- 3. Rows are replaced where on_duplicate and the dedup key say so, and only if they have not started: the rules of routines/dedup.
-- 4. A process that dies in between has lost some ids, which no other row gets.
CREATE FUNCTION asyncjobs.enqueue_in_transaction(
    _rows text, _channel text, _ids bigint[] DEFAULT NULL, _proofs bigint[] DEFAULT NULL, _own boolean DEFAULT false,
    _again boolean DEFAULT false, _lock_timeout text DEFAULT NULL,
    OUT ids bigint[], OUT existing integer[], OUT did text[], OUT refused integer[], OUT statuses text[], OUT taken integer[], OUT later integer[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _made CONSTANT asyncjobs.new_job[] := asyncjobs.read_rows(ARRAY[_rows]);
    _now timestamptz := asyncjobs.moment();
BEGIN
    IF _ids IS NOT NULL AND asyncjobs.proofs(_ids) IS DISTINCT FROM _proofs THEN
        RAISE EXCEPTION 'these ids were not given by give_ids' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT e.ids, e.existing, e.did, e.refused, e.statuses, e.taken, e.later INTO ids, existing, did, refused, statuses, taken, later
    FROM asyncjobs.enqueue_rows(_ids, ARRAY(
            SELECT (x.item ->> 'enqueue_token')::bigint FROM jsonb_array_elements(_rows::jsonb) WITH ORDINALITY AS x(item, o) ORDER BY x.o),
        _made, _own, _again, 0, _lock_timeout, _now) AS e;
    IF NOT _own THEN
        PERFORM asyncjobs.keep_quiet(_made);
    END IF;
    IF _channel IS NOT NULL AND refused IS NULL THEN
        PERFORM asyncjobs.announce(_made, existing, _now);
    END IF;
END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.enqueue_in_transaction FROM PUBLIC;
