-- The job whose own this correlation id would be; null when it is no such id.
CREATE FUNCTION asyncjobs.traced_job(_correlation_id text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN _correlation_id ~ '^job-[1-9][0-9]{0,17}$' THEN substr(_correlation_id, 5)::bigint END;
