-- Hold back the head of a paused key.
SELECT asyncjobs.hold_back_key($1::text);
