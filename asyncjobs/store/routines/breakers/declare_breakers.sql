-- Make the rows of breakers that are declared for the first time: operators see them, and can open them from anywhere.
CREATE FUNCTION asyncjobs.declare_breakers(_services text[]) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO asyncjobs.circuit_breakers (service_name) SELECT s.name FROM unnest(_services) AS s(name) ORDER BY s.name
    ON CONFLICT (service_name) DO NOTHING;
END $$;
