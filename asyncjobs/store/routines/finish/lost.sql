-- The outcomes whose tokens were not written: their claims are not ours any more.
CREATE FUNCTION asyncjobs.lost(_ids bigint[], _tokens bigint[], _written bigint[]) RETURNS SETOF asyncjobs.answer LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT 'lost', NULL::integer, NULL, o.id, o.token, NULL, NULL::integer, NULL::jsonb, NULL::smallint, NULL::bigint, NULL::integer,
        NULL::integer, NULL::float8, NULL::float8, NULL::float8, NULL::float8, NULL, NULL::jsonb
    FROM unnest(_ids, _tokens) AS o(id, token) WHERE _written IS NULL OR o.token <> ALL (_written);
END;
