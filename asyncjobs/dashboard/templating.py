"""The pages' templates and files: the only file that knows Jinja.

Everything that a template prints is escaped, and a name that it does not have is an error. Pages have no inline script or style,
which the Content-Security-Policy would stop; charts are SVG without `style`.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from asyncjobs.dashboard.shown import FILTERS

#: The files that pages load, and what they are.
STATIC: Final[Mapping[str, str]] = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("asyncjobs.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals["version_of"] = version_of
    return made


def render(name: str, data: Mapping[str, Any]) -> str:
    """The template with this data."""
    return _environment().get_template(name).render(data)


@cache
def static_file(name: str) -> bytes:
    """A file that pages load."""
    return files("asyncjobs.dashboard").joinpath("static", name).read_bytes()


@cache
def version_of(name: str) -> str:
    """Of that file: part of its address, so that browsers may keep it."""
    return hashlib.sha256(static_file(name)).hexdigest()[:12]
