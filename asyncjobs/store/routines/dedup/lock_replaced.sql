-- The locks of a replacement: rows of jobs that have not started, or ended before they did, and keys.
CREATE FUNCTION asyncjobs.lock_replaced(_ids bigint[], _keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM asyncjobs.lock_in_order(_ids, '{scheduled,pending,paused,dead,cancelled}', _keys);
END $$;
