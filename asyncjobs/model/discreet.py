"""What stays out of every `repr`: payloads, results, passwords. Tracebacks, log lines and debuggers show `repr`s."""

import msgspec


def discreet(struct: msgspec.Struct, *hidden: str) -> str:
    """The struct as msgspec shows it, with `…` for what the hidden fields hold."""
    values = {name: getattr(struct, name) for name in struct.__struct_fields__}
    told = ", ".join(f"{name}={'…' if name in hidden and value else repr(value)}" for name, value in values.items())
    return f"{type(struct).__name__}({told})"
