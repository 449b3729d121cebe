-- Write what jobs that were lost before have outlived.
SELECT asyncjobs.outlive($1::bigint[], $2::bigint[], $3::integer[], $4::boolean[])
