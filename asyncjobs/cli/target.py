"""Which jobs are meant: an app that is named as `package.module:attribute`, or a DSN alone, which is enough for most verbs."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.cli.failures import BadInput
from asyncjobs.dsn import parse_dsn
from asyncjobs.errors import AsyncJobsError, did_you_mean, listed
from asyncjobs.settings import make_settings


def load(path: str) -> AsyncJobs:
    """The app at `package.module:attribute`, looked for from the current folder on. BadInput says what is wrong with it."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise BadInput(f'"{path}" names no app: write package.module:attribute, as in myapp:jobs.')
    found: Any = _module(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            apps = [name for name, value in vars(found).items() if isinstance(value, AsyncJobs)] if "." not in attribute else []
            hint = did_you_mean(part, apps) or (f" It has {listed(apps)}." if apps else "")
            raise BadInput(f'module "{module_name}" has no "{attribute}".{hint}')
        found = getattr(found, part)
    if not isinstance(found, AsyncJobs):
        raise BadInput(f'"{path}" is of type {type(found).__name__}: name an attribute that is an AsyncJobs.')
    return found


def _module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise BadInput(f'there is no module "{error.name}": looked in {here} and where Python looks ($PYTHONPATH).') from None
        raise BadInput(f'module "{name}" needs "{error.name}", which is not installed.') from error
    except AsyncJobsError:
        raise
    except Exception as error:
        raise BadInput(f'module "{name}" cannot be imported: {type(error).__name__}: {error} (--debug shows where)') from error


def target(app: str | None, dsn: str | None, schema: str | None, **settings: Any) -> AsyncJobs:
    """The app that is named, or one without handlers; with the DSN, the schema and the settings that were given."""
    found = AsyncJobs() if app is None else load(app)
    given = {name: value for name, value in {"schema": schema, **settings}.items() if value is not None}
    if dsn is not None and dsn != found.dsn:
        parse_dsn(dsn)
        given = {"listen_dsn": None, "connect_kwargs": {}, **given}  # these belong to the app's own server
        found.dsn = dsn
    if given:
        found.settings = make_settings({**msgspec.structs.asdict(found.settings), **given})
    return found
