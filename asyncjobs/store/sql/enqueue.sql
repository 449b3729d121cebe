-- Enqueue rows, column by column (a column that is null in every row is sent as null).
SELECT e.ids, e.existing, e.refused, e.statuses, e.taken, e.reserved, e.later
FROM asyncjobs.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, true, $22, $23, $24)
    AS e;
