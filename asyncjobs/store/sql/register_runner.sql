-- Make a runner known, or known again when the first answer was lost: ids are random and never used twice. And its types, for
-- enqueues from SQL.
WITH runner AS (
    INSERT INTO asyncjobs.runners AS r (id, host, pid, version, queues, types, duties, slots, prefetch, versions, declares, name, machine, serves)
    VALUES ($1::bigint, $2::text, $3::integer, $4::text, $5::text[], $6::text[], $7::text[], $8::jsonb, $9::jsonb, $10::jsonb,
        ARRAY(SELECT (d.value ->> 'digest')::bigint FROM pg_catalog.jsonb_array_elements($11::jsonb) AS d), $12::text, $13::text, $14::bigint)
    ON CONFLICT (id) DO UPDATE SET beat = r.beat + 1, beat_at = asyncjobs.clock(), queues = excluded.queues, types = excluded.types,
        duties = excluded.duties, slots = excluded.slots, prefetch = excluded.prefetch, versions = excluded.versions,
        declares = excluded.declares, serves = excluded.serves)
SELECT asyncjobs.declare_types($11::jsonb)
