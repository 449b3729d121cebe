"""What may be a name (queue, lane, job, duty …) and what may be a key (dedup key, serialization key)."""

from asyncjobs.errors import InvalidName

MAX_NAME_BYTES = 63
#: Of what is often called by the dotted path of a function, as in other queues.
MAX_LONG_NAME_BYTES = 200
_LONG = frozenset({"job", "schedule", "prefix"})
MAX_KEY_CHARACTERS = 255


def shown(value: object, *, at_most: int = 60) -> str:
    """The value as source text, cut to a length that a message can carry."""
    if isinstance(value, str) and value.isprintable():
        return f'"{value}"' if len(value) <= at_most else f'"{value[:at_most]}…"'
    text = ascii(value)
    return text if len(text) <= at_most else text[:at_most] + "…"


def kind_of(value: object) -> str:
    """The value's type with its article: `a str`, `an int`, `None`."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeioAEIO" else f"a {name}"


def check_name(what: str, name: object) -> str:
    """The name, or InvalidName: a name is 1 to 63 bytes (of a job or a schedule 200) of printable text that does not begin with
    `asyncjobs.`.
    """
    if not isinstance(name, str):
        raise InvalidName(f"{what} name {shown(name)} is {kind_of(name)}, not a str: give it a name in quotes.", name=name)
    problem = _problem(name, MAX_LONG_NAME_BYTES if what in _LONG else MAX_NAME_BYTES)
    if problem:
        raise InvalidName(f"{what} name {shown(name)} {problem}.", name=name)
    return name


def _problem(name: str, most: int) -> str | None:
    if not name:
        return "is empty: give it a name"
    if not name.isprintable():
        return "has characters that cannot be printed: leave them out"
    if name != name.strip():
        return "begins or ends with a space: leave it out"
    size = len(name.encode())
    if size > most:
        return f"is {size} bytes, at most {most}"
    if name.startswith("asyncjobs."):
        return 'is reserved: names that begin with "asyncjobs." are asyncjobs\' own'
    return None


def check_schema_name(name: object) -> str:
    """The name of a PostgreSQL schema, or InvalidName: any name will do that the server does not keep for itself."""
    schema = check_name("schema", name)
    if schema.startswith("pg_") or schema == "information_schema":
        raise InvalidName(f'schema name "{schema}" is reserved by PostgreSQL: choose another.', name=schema)
    return schema


def key_problem(key: object, *, at_most: int = MAX_KEY_CHARACTERS) -> str | None:
    """Why this cannot be a key, in words that follow `dedup_key=…`; None when it can."""
    if not isinstance(key, str):
        return f"is {kind_of(key)}, not a str"
    if not key:
        return "is empty"
    if len(key) > at_most:
        return f"has {len(key):,} characters, at most {at_most}"
    if "\x00" in key:
        return "has a NUL character, which PostgreSQL cannot store"
    if not _is_unicode(key):
        return "has a lone surrogate, which UTF-8 cannot hold"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
