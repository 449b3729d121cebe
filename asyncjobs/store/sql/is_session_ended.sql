-- Whether a session of the dashboard was ended before its time.
SELECT EXISTS (SELECT FROM asyncjobs.ended_sessions AS s WHERE s.session = $1::text) AS ended;
