-- End a session of the dashboard, and forget those whose time is over anyway.
WITH over AS (DELETE FROM asyncjobs.ended_sessions AS s WHERE s.until_at < pg_catalog.now())
INSERT INTO asyncjobs.ended_sessions (session, until_at) VALUES ($1::text, pg_catalog.to_timestamp($2::float8)) ON CONFLICT DO NOTHING;
