"""Forms that only our own pages can send.

Three walls, each of which holds alone: cookies are SameSite=Strict; a form that a browser sends names the site it is on
(`Origin`, `Sec-Fetch-Site`), which has to be ours; and every form carries a token, made of a secret of the server, the viewer's
name and a random number in the browser's cookie. A form without the token is refused. Only a program's needs none, which sends
`Authorization: Bearer`: no browser adds that to a form of another site.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from asyncjobs.dashboard.access import Viewer
from asyncjobs.dashboard.problems import Refused
from asyncjobs.dashboard.web import Request

COOKIE: Final = "asyncjobs_browser"
FIELD: Final = "csrf"

_LENGTH: Final = 32


def browser_of(request: Request) -> str:
    """The random number in the browser's cookie, or a new one."""
    number = request.cookies.get(COOKIE, "")
    return number if len(number) == _LENGTH and number.isalnum() else secrets.token_hex(_LENGTH // 2)


def token_for(secret: bytes, viewer: Viewer, browser: str) -> str:
    """What this viewer's forms carry in this browser."""
    return hmac.new(secret, f"csrf\0{browser}\0{viewer.name}".encode(errors="replace"), hashlib.sha256).hexdigest()


def is_program(request: Request) -> bool:
    """Whether the request proves by a header that no other site's page has sent it."""
    return request.headers.get("authorization", "").lower().startswith("bearer ")


def check_origin(request: Request, origins: Sequence[str]) -> None:
    """Refused when a browser says that the form is on another site."""
    origin = request.headers.get("origin")
    if origin is not None:
        if origin not in origins and urlsplit(origin).netloc != request.headers.get("host", ""):
            raise Refused(403, f"This form is on another site ({origin!a:.80}). Behind a proxy, say origins=[…] for its name.")
    elif request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise Refused(403, "This form is on another site.")


def check_token(secret: bytes, viewer: Viewer, request: Request, given: str | None) -> None:
    """Refused without the token of this viewer's forms in this browser; a program needs none."""
    if is_program(request):
        return
    expected = token_for(secret, viewer, request.cookies.get(COOKIE, ""))
    if not hmac.compare_digest(expected.encode(), (given or "").encode(errors="replace")):
        raise Refused(403, "This form is out of date, or from somewhere else. Go back, reload the page, and try again.")
