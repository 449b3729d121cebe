-- Move sequences on that stand behind their rows; `$1`: look at all places, not only for signs. Most often there is none.
SELECT m.name, m.was, m.is_now FROM asyncjobs.move_sequences($1::boolean) AS m;
