-- The rows of an enqueue, in their order: lists of JSON, which leave out what is as usual. (As a list of what is selected, not from: so they
-- are not taken apart and put together again. 1.6 us a row instead of 1.9.)
CREATE FUNCTION asyncjobs.read_rows(_documents text[]) RETURNS asyncjobs.new_job[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT jsonb_populate_recordset(NULL::asyncjobs.new_job, d.document::jsonb) FROM unnest(_documents) AS d(document));
END $$;
