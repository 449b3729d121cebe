-- Pause a key.
SELECT asyncjobs.pause_key($1::text, $2::text, $3::text) AS paused;
