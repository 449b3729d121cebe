-- A page of the jobs that fit, and where to go on.
SELECT f.ids, f.statuses, f.looked, f.next
FROM asyncjobs.find_jobs($1::bigint, $2::integer, $3::integer, $4::boolean, $5::text, $6::text, $7::text[], $8::text, $9::text,
    $10::bigint, $11::jsonb, $12::text, $13::text[], $14::text, $15::text, $16::integer, $17::bigint[], $18::timestamptz, $19::timestamptz,
    $20::timestamptz, $21::timestamptz, $22::bigint) AS f;
