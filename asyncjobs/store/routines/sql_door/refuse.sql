-- Refuse an enqueue, by the name of Python's error: each has its SQLSTATE.
CREATE FUNCTION asyncjobs.refuse(_error text, _message text, _hint text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = CASE _error
        WHEN 'UnknownType' THEN 'JOB01'
        WHEN 'InvalidPayload' THEN 'JOB02'
        WHEN 'PayloadTooLarge' THEN 'JOB03'
        WHEN 'InvalidOption' THEN 'JOB04'
        WHEN 'DuplicateJob' THEN 'JOB05'
        WHEN 'UnknownQueue' THEN 'JOB06'
        WHEN 'UnknownLane' THEN 'JOB07'
        WHEN 'WorkflowError' THEN 'JOB08' END, MESSAGE = _message, HINT = _hint;
END $$;
