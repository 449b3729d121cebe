-- A row with what its options say, and for the rest what its type does: `empty_row` and `in_queue` of declare/new_job.py. Of a type that
-- nobody has declared the handler is asked, as for a stub.
CREATE FUNCTION asyncjobs.as_declared(_name text, _type asyncjobs.types, _options jsonb) RETURNS asyncjobs.new_job LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _row asyncjobs.new_job := asyncjobs.read_options(_options);
BEGIN
    IF _type.name IS NULL THEN
        IF _options -> 'undeclared' IS DISTINCT FROM 'true' THEN
            PERFORM asyncjobs.refuse('UnknownType', format('no job "%s" in this schema. Known: %s.', _name, asyncjobs.known_types()),
                'Runners declare their types when they open. For one that none has declared yet give the option "undeclared": true.');
        END IF;
        _row.type := asyncjobs.read_name('job', coalesce(to_jsonb(_name), 'null'));
        _row.queue := coalesce(_row.queue, 'default');
        _row.on_dead := CASE WHEN _row.max_attempts IS NULL THEN 'ask all' ELSE 'ask' END;
        RETURN _row;
    END IF;
    _row.type := _type.type;
    _row.version := _type.version;
    _row.on_dead := _type.on_dead;
    _row.queue := coalesce(_row.queue, _type.queue);
    _row.lane := coalesce(_row.lane, _type.lane);
    _row.priority := coalesce(_row.priority, _type.priority);
    _row.max_attempts := coalesce(_row.max_attempts, _type.max_attempts);
    _row.timeout_seconds := coalesce(_row.timeout_seconds, _type.timeout_seconds);
    IF NOT _type.queues ? _row.queue THEN
        PERFORM asyncjobs.refuse('UnknownQueue', format('%s: queue "%s" is not in queues= (%s).', _type.type, _row.queue, asyncjobs.names_in(_type.queues)),
            'The queues are those of the program that declared the type.');
    ELSIF _row.lane IS NOT NULL AND _type.queues -> _row.queue ? _row.lane THEN
        _row.timeout_seconds := coalesce(_row.timeout_seconds, (_type.queues -> _row.queue ->> _row.lane)::float8);
    ELSIF _row.lane = _type.lane AND _row.queue <> _type.queue THEN
        _row.lane := NULL;  -- it is left behind with the type's own queue
    ELSIF _row.lane IS NOT NULL THEN
        PERFORM asyncjobs.refuse('UnknownLane',
            format('%s: lane "%s" is not a lane of queue "%s" (%s).', _type.type, _row.lane, _row.queue, asyncjobs.names_in(_type.queues -> _row.queue)),
            'The lanes are those of the program that declared the type.');
    END IF;
    RETURN _row;
END $$;
