-- Whether an operator holds jobs of this type or key back. A paused queue, and a pause of all, is the claim's affair alone: nothing else looks at their rows,
-- and pausing and resuming a long one costs nothing.
CREATE FUNCTION asyncjobs.is_paused(_type text, _key text) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM asyncjobs.pauses AS p
    WHERE (p.kind = 'type' AND p.name = _type) OR (p.kind = 'key' AND p.name = _key));
