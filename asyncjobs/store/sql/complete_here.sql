-- Complete a job inside its handler's transaction.
SELECT asyncjobs.complete_here($1::bigint, $2::bigint, $3::text, $4::text) AS completed;
