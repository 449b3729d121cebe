-- The names that runners have declared, for a message: the first ten.
CREATE FUNCTION asyncjobs.known_types() RETURNS text LANGUAGE sql STABLE
RETURN (SELECT coalesce(pg_catalog.string_agg(n.name, ', ' ORDER BY n.name COLLATE "C") FILTER (WHERE n.number <= 10), 'none')
        || CASE WHEN pg_catalog.count(*) > 10 THEN ', and ' || pg_catalog.count(*) - 10 || ' more' ELSE '' END
    FROM (SELECT d.name, pg_catalog.row_number() OVER (ORDER BY d.name COLLATE "C") AS number
          FROM (SELECT DISTINCT t.name FROM asyncjobs.types AS t) AS d) AS n);
