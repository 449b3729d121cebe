-- Write down what came of a verb.
SELECT asyncjobs.end_verb($1::bigint, $2::text)
