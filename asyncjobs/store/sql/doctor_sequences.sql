-- Sequences that stand behind their rows.
SELECT b.name, b.last_value, b.reached FROM asyncjobs.sequences_behind() AS b ORDER BY b.name
