-- Write how far running handlers are. Fenced by token, sorted by id.
SELECT asyncjobs.set_progress($1, $2, $3);
