-- Let a schedule tick again, from now on.
SELECT s.name FROM asyncjobs.enable_schedule($1::text) AS s(name);
