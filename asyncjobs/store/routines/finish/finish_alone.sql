-- An ack by itself, which gives up waiting for a row's lock after a moment: a handler's transaction may still hold it.
CREATE FUNCTION asyncjobs.finish_alone(_runner bigint, _ids bigint[], _tokens bigint[], _outcomes text[], _results text[], _max_errors integer)
RETURNS TABLE (kind text, id bigint, queue text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    RETURN QUERY SELECT f.kind, f.id, f.queue FROM asyncjobs.finish(
        _runner, _ids, _tokens, _outcomes, _results, _max_errors, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL) AS f;
END $$;
