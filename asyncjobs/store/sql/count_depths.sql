-- Count the kinds of which there are more than $4 unfinished jobs, for those who look often; false, and nothing done, when the term is over.
SELECT asyncjobs.count_depths($1::text, $2::text, $3::bigint, $4::integer) AS held;
