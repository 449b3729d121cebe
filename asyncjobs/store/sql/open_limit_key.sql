-- An operator opens a limit key.
SELECT asyncjobs.open_key($1::text) AS is_opened
