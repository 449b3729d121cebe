"""A stranger's trigger that refuses each write of some jobs: poisoned rows."""

from typing import Literal

from asyncjobs.store.database import Connection

#: "at once": the statement fails; "at the commit": what it wrote is refused when its transaction ends.
When = Literal["at once", "at the commit"]

_FUNCTION = """
CREATE TABLE public.poisoned (id bigint PRIMARY KEY);
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM public.poisoned AS p WHERE p.id = NEW.id) THEN
        RAISE EXCEPTION 'not job %', NEW.id USING ERRCODE = 'P0001';
    END IF;
    RETURN NEW;
END $$;
"""
_TRIGGER = {
    "at once": "CREATE TRIGGER refuse BEFORE UPDATE ON asyncjobs.jobs FOR EACH ROW EXECUTE FUNCTION public.refuse()",
    "at the commit": "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON asyncjobs.jobs DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
}


async def poison(connection: Connection, *job_ids: int, when: When = "at once") -> None:
    """From now on nothing can be written to these rows."""
    await connection.execute(_FUNCTION)
    await connection.executemany("INSERT INTO public.poisoned (id) VALUES ($1)", [(job_id,) for job_id in job_ids])
    await connection.execute(_TRIGGER[when])


async def heal(connection: Connection) -> None:
    """They can be written to again."""
    await connection.execute("TRUNCATE public.poisoned")
