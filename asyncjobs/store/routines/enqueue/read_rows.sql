-- The rows of an enqueue, in their order: lists of JSON, which leave out what is as usual.
CREATE FUNCTION asyncjobs.read_rows(_documents text[]) RETURNS asyncjobs.new_job[] LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT r FROM unnest(_documents) AS d(document)
        CROSS JOIN LATERAL jsonb_populate_recordset(NULL::asyncjobs.new_job, d.document::jsonb) AS r);
END $$;
