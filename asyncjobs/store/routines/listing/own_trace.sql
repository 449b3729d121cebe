-- The correlation id of a job that was given none: its own. It is not stored: each version of the row would pay for an entry of an index.
-- (model/trace.py says the same.)
CREATE FUNCTION asyncjobs.own_trace(_id bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'job-' || _id::text;
