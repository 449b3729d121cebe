-- Add what a runner counted since it last did to this minute's rows.
SELECT asyncjobs.record_metrics($1::text::jsonb)
