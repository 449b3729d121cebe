-- Make the rows of breakers that are declared for the first time: operators see them, and can open them from anywhere.
INSERT INTO asyncjobs.circuit_breakers (service_name) SELECT s.name FROM pg_catalog.unnest($1::text[]) AS s(name) ORDER BY s.name
ON CONFLICT (service_name) DO NOTHING;
