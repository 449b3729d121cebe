-- Why a row was refused that met another with its dedup key: `refusal` of runtime/sender.py.
CREATE FUNCTION asyncjobs.refuse_duplicate(_row asyncjobs.new_job, _id bigint, _status text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF _row.on_duplicate = 'raise' THEN
        PERFORM asyncjobs.refuse('DuplicateJob', format('%s "%s" is job %s, %s (on_duplicate="raise").', _row.type, _row.dedup_key, _id,
            coalesce(_status, 'enqueued by the same call')), 'Leave on_duplicate out to be answered the id of the job that is there.');
    END IF;
    PERFORM asyncjobs.refuse('InvalidOption', format('%s "%s" is job %s, which has another serialization key than %s: '
        'on_duplicate="replace" cannot move a job to another line.', _row.type, _row.dedup_key, _id, coalesce(quote_literal(_row.serialization_key), 'None')),
        'Cancel that job first, or give it another dedup key.');
END $$;
