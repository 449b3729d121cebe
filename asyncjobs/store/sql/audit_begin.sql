-- Write down that a verb is about to be done.
SELECT asyncjobs.begin_verb($1::text, $2::text, $3::text, $4::text, $5::text) AS id
