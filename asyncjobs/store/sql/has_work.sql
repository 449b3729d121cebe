-- Whether a runner has something to do now.
SELECT asyncjobs.has_work($1, $2::jsonb, $3, $4::jsonb) AS has_work;
