-- An operator's values of a limit; null: reset.
SELECT asyncjobs.set_limit($1::text, $2::text, $3::text::jsonb, $4::text) AS is_set
