-- Let due jobs of these keys join their lines.
SELECT p.promoted, p.queues, p.urgent_queues, p.expired FROM asyncjobs.promote_keyed($1::text[], $2::integer) AS p
