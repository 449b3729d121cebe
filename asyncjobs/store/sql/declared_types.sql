-- When each of these types was declared last, by whatever name; those that never were are missing.
SELECT t.name, asyncjobs.instant(pg_catalog.max(t.declared_at)) AS declared_at FROM asyncjobs.types AS t WHERE t.name = ANY ($1::text[]) GROUP BY t.name;
