-- Write how far running handlers are. Fenced by token, sorted by id. Returns the jobs whose rows are locked.
SELECT asyncjobs.set_progress($1, $2, $3);
