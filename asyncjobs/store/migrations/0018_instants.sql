-- What is read of a row's times. A column may hold what Python's datetime and timedelta cannot, by a stranger's hand: infinity, or the
-- year 294276. One such row must not break the claim of the rows beside it, nor a list. Inlined, so neither may carry a SET. A CHECK
-- that refuses such rows was tried: it cost 11 us more in each statement that writes to a row of `jobs`, these 0.1 us a row.

-- The instant, or the nearest one that every program can hold, in whatever time zone.
CREATE FUNCTION asyncjobs.instant(_at timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN _at > timestamptz '9999-12-30 00:00:00+00' THEN timestamptz '9999-12-30 00:00:00+00'
                  WHEN _at < timestamptz '0001-01-03 00:00:00+00' THEN timestamptz '0001-01-03 00:00:00+00' ELSE _at END;

-- The duration, between none and a hundred years.
CREATE FUNCTION asyncjobs.span(_duration interval) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN _duration > interval '36525 days' THEN interval '36525 days'
                  WHEN _duration < interval '0' THEN interval '0' ELSE _duration END;

-- What JSON says of an instant or a number, null where it says nothing of the kind: a stranger's value must not break a list.
CREATE FUNCTION asyncjobs.read_instant(_text text) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN asyncjobs.instant(_text::timestamptz);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

CREATE FUNCTION asyncjobs.read_number(_text text) RETURNS float8 LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN _text::float8 BETWEEN -9e15 AND 9e15 THEN _text::float8 END;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- What only few jobs have, as one array that most do without: null. With a column for each of these, and without a type that has a name for
-- the answer, `finish_one` took 67 thousand instructions more (of 1,116), `finish_completed` of 10 jobs 110 (of 2,392), of 50 320.
-- Inlined, so it carries no SET.
CREATE FUNCTION asyncjobs.rest(
    _lane text, _timeout interval, _snoozes bigint, _rescues integer, _losses smallint, _suspicion smallint, _correlation_id text,
    _parent_job_id bigint, _created_by text, _dedup_key text, _requeued_from bigint, _trace_context text, _progress jsonb, _last_error text)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE
    WHEN pg_catalog.num_nonnulls(_lane, _timeout, _correlation_id, _parent_job_id, _created_by, _dedup_key, _requeued_from, _trace_context,
                                 _progress, _last_error) > 0 OR _snoozes <> 0 OR _rescues <> 0
    THEN pg_catalog.jsonb_build_array(_lane, EXTRACT(epoch FROM asyncjobs.span(_timeout)), _snoozes, _rescues, _losses, _suspicion, _correlation_id,
        _parent_job_id, _created_by, _dedup_key, _requeued_from, _trace_context, _progress::text, _last_error) END;
