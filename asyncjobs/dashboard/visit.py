"""One request: who asks, for what, and how it is answered."""

import hmac
import json
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlencode

from asyncjobs.admin import Admin
from asyncjobs.app import AsyncJobs
from asyncjobs.dashboard import csrf
from asyncjobs.dashboard.access import Door, Viewer
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.news import Fragments, News
from asyncjobs.dashboard.templating import render
from asyncjobs.dashboard.web import HTMLResponse, RedirectResponse, Request, Response

_SAID: Final = "asyncjobs_said"
_MOST_SAID: Final = 600

#: Where pages are: the path, and what the menu calls it.
MENU: Final = (
    ("/", "Overview"),
    ("/jobs", "Jobs"),
    ("/keys", "Keys"),
    ("/workflows", "Workflows"),
    ("/dead", "Dead letters"),
    ("/queues", "Queues"),
    ("/schedules", "Schedules"),
    ("/runners", "Runners"),
    ("/breakers", "Breakers"),
    ("/limits", "Limits"),
    ("/doctor", "Doctor"),
    ("/audit", "Audit"),
)


class Site(Protocol):
    """What a visit needs of the dashboard that is visited."""

    @property
    def jobs(self) -> AsyncJobs:
        """The app."""
        ...

    @property
    def door(self) -> Door:
        """Who may come in."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether nobody may change anything."""
        ...

    @property
    def title(self) -> str:
        """What pages call the app."""
        ...

    @property
    def secret(self) -> bytes:
        """What forms are signed with."""
        ...

    @property
    def news(self) -> News:
        """Readings of what moves."""
        ...

    @property
    def fragments(self) -> Fragments:
        """What of them was rendered."""
        ...


class Visit:
    """A request of somebody who may look."""

    def __init__(self, site: Site, request: Request, viewer: Viewer | None) -> None:
        self.site = site
        self.request = request
        self.viewer = viewer
        self.root = str(request.scope.get("root_path", "")).rstrip("/")
        self._browser = csrf.browser_of(request)

    @property
    def admin(self) -> Admin:
        """The verbs, which show who visits what they may see."""
        return self.site.jobs.admin.acting(shows_payloads=self.sees_payloads)

    @property
    def query(self) -> Fields:
        """The query string, and what the path has of fields; BadInput."""
        fields = Fields(self.request.url.query)
        fields.pairs += [(name, str(value)) for name, value in self.request.path_params.items()]
        return fields

    @property
    def path(self) -> str:
        """The path below the place where the dashboard is mounted."""
        return self.request.url.path.removeprefix(self.root) or "/"

    @property
    def sees_payloads(self) -> bool:
        """Whether payloads are shown. What is read for those who see them is shown to nobody else."""
        return self.viewer is not None and self.viewer.sees_payloads

    @property
    def may_act(self) -> bool:
        """Whether verbs are offered, and done."""
        return self.viewer is not None and self.viewer.may_act and not self.site.read_only

    def url(self, path: str, **query: object) -> str:
        """The address of a page of ours. None is left out of the query; a list is repeated."""
        given = {name: value for name, value in query.items() if value is not None and value != []}
        return self.root + path + ("?" + urlencode(given, doseq=True, quote_via=quote) if given else "")

    def page(self, template: str, *, status: int = 200, **data: Any) -> Response:
        """The template as a page."""
        said = self._said()
        html = render(template, {**self.frame(), "said": said, **data})
        response = HTMLResponse(html, status_code=status)
        self._set_cookie(response, csrf.COOKIE, self._browser)
        if said is not None:
            response.delete_cookie(_SAID, path=self._cookie_path)
        return response

    def frame(self) -> dict[str, Any]:
        """What every template may use."""
        return {
            "url": self.url,
            "viewer": self.viewer,
            "may_act": self.may_act,
            "sees_payloads": self.sees_payloads,
            "read_only": self.site.read_only,
            "logs_out": self.site.door.tokens is not None,
            "menu": MENU,
            "path": self.path,
            "here": self.here,
            "title": self.site.title,
            "csrf": "" if self.viewer is None else csrf.token_for(self.site.secret, self.viewer, self._browser),
        }

    @property
    def here(self) -> str:
        """This page with its query, below the place where the dashboard is mounted: where a verb comes back to."""
        query = self.request.url.query
        return self.path + (f"?{query}" if query else "")

    def back(self, to: str | None, *, say: str | None = None, kind: str = "good") -> Response:
        """Go on with a page of ours (`to`, as a form named it, or the first page), which says something. A program is told at
        once.
        """
        if say is not None and csrf.is_program(self.request):
            return Response(say + "\n", media_type="text/plain")
        # Only ours: a path, and none that a browser takes for another host.
        is_ours = to is not None and to.startswith("/") and not to.startswith(("//", "/\\")) and to.isprintable()
        response = RedirectResponse(self.root + (to if is_ours and to is not None else "/"), status_code=303)
        if say is not None:
            text = json.dumps([kind, say[:_MOST_SAID]])
            self._set_cookie(response, _SAID, f"{quote(text)}.{self._sign(text)}", seconds=60)
        return response

    def set_session(self, response: Response, name: str, value: str, seconds: int) -> None:
        """A cookie that outlives the page."""
        self._set_cookie(response, name, value, seconds=seconds)

    def end_session(self, response: Response, name: str) -> None:
        """Take it away."""
        response.delete_cookie(name, path=self._cookie_path)

    @property
    def _cookie_path(self) -> str:
        return self.root + "/"

    def _set_cookie(self, response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path=self._cookie_path, httponly=True, samesite="strict",
            secure=self.request.url.scheme == "https",
        )  # fmt: skip

    def _said(self) -> tuple[str, str] | None:
        text, _, signature = self.request.cookies.get(_SAID, "").rpartition(".")
        text = unquote(text)
        if not text or not hmac.compare_digest(self._sign(text).encode(), signature.encode(errors="replace")):
            return None
        kind, said = json.loads(text)
        return str(kind), str(said)

    def _sign(self, text: str) -> str:
        return hmac.new(self.site.secret, f"said\0{text}".encode(errors="replace"), sha256).hexdigest()


Page: TypeAlias = Callable[[Visit], Awaitable[Response]]
