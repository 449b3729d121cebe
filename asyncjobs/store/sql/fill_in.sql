-- Write what jobs of stubs left to their handlers. Fenced by token, sorted by id.
SELECT asyncjobs.fill_in($1, $2, $3, $4, $5, $6);
