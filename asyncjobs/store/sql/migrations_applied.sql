-- The migrations that were applied, in order.
SELECT m.number, m.name, m.breaking FROM asyncjobs.migrations AS m ORDER BY m.number;
