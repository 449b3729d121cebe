-- Under SERIALIZABLE every look into an index conflicts with an insert beside it: any two transactions that enqueued keyed jobs
-- at the same time would fail one of them. So nothing is looked for there: the row is found by its ctid, and the slots to lock
-- were noted by the inserts, in a setting that ends (and rolls back to savepoints) with the transaction.
CREATE FUNCTION asyncjobs.note_joining(_keys text[]) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') = 'serializable' THEN
        PERFORM set_config('asyncjobs_joining.slots', ARRAY(
            SELECT unnest(asyncjobs.key_slots(array_remove(_keys, NULL)))
            UNION SELECT unnest(nullif(current_setting('asyncjobs_joining.slots', true), '')::integer[]) ORDER BY 1)::text, true);
    END IF;
END $$;
