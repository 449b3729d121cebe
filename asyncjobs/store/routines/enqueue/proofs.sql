-- What the database gives along with these ids. Who can show it was given them.
CREATE FUNCTION asyncjobs.proofs(_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    _secret text;
BEGIN
    SELECT s.secret INTO STRICT _secret FROM asyncjobs.ids_secret AS s;  -- without a secret nothing is proven
    RETURN ARRAY(
        SELECT ('x' || left(encode(sha256(convert_to(_secret || ':' || i.id || ':' || _secret, 'UTF8')), 'hex'), 16))::bit(64)::bigint
        FROM unnest(_ids) WITH ORDINALITY AS i(id, at) ORDER BY i.at);
END $$;
