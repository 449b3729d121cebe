-- Let a schedule tick no more. What an operator says counts more than what runners found.
UPDATE asyncjobs.schedules AS s
SET enabled = false, disabled_because = $2::text, disabled_reason = $3::text, updated_at = asyncjobs.clock()
WHERE s.name = $1::text AND (s.enabled OR (s.disabled_because <> 'operator' AND $2::text = 'operator'))
RETURNING s.name;
