-- The fields that nobody is shown, of the types that have some.
SELECT t.type, pg_catalog.array_agg(DISTINCT f.field) AS fields
FROM asyncjobs.types AS t CROSS JOIN LATERAL unnest(t.redact) AS f(field) GROUP BY t.type
