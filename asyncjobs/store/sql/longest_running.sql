-- What runs, and for longest first; not what is claimed ahead of its slot.
SELECT f.id FROM asyncjobs.in_flight(NULL) AS f JOIN asyncjobs.jobs AS j ON j.id = f.id
WHERE NOT f.is_ahead ORDER BY j.started_at, j.id LIMIT $1::integer
