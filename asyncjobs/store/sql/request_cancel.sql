-- Begin to cancel a workflow.
SELECT asyncjobs.request_cancel($1::bigint, $2::text) AS outcome;
