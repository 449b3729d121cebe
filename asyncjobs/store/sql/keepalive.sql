-- Nothing, to learn whether the other side still answers.
SELECT 1 AS alive
