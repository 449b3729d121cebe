-- Complete a job inside its handler's transaction. Texts only: the connection is the caller's.
SELECT asyncjobs.complete_here($1::text::bigint, $2::text::bigint, $3::text, $4::text)::text AS completed;
