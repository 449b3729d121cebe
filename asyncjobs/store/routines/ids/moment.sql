-- The time (`clock`) at this moment, not at the start of the transaction, for what is done in a caller's transaction, which may have begun long ago: an enqueue (what it has a
-- delay, a `dedup_for` or a time in the past counts from here, and so does whether others' dedup keys are over), what is left to its
-- commit, and `ctx.complete`. A call asks once, and hands on what it was told. Tests move `clock`, and this goes along.
CREATE FUNCTION asyncjobs.moment() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN asyncjobs.clock() + (pg_catalog.clock_timestamp() - pg_catalog.now());
