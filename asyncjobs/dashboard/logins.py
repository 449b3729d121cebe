"""Logging in and out, for people whose dashboard is guarded by tokens."""

from typing import Final

from asyncjobs.dashboard.access import SESSION_COOKIE, SESSION_SECONDS
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.problems import Refused
from asyncjobs.dashboard.visit import Visit
from asyncjobs.dashboard.web import Response

_NO_TOKENS: Final = "Nobody logs in here: the app decides who may see this."


async def page(visit: Visit) -> Response:
    """The form that asks for a token."""
    if visit.site.door.tokens is None:
        raise Refused(404, _NO_TOKENS)
    back = visit.query.known(["back"]).text("back")
    return visit.page("login.html", back=back or "/", refused=False)


def entered(visit: Visit, form: Fields) -> Response:
    """A session for whoever knows the token; else the form again."""
    if visit.site.door.tokens is None:
        raise Refused(404, _NO_TOKENS)
    session = visit.site.door.session_for(visit.request, form.known(["token", "back"]).text("token") or "")
    if session is None:
        return visit.page("login.html", status=401, back=form.text("back") or "/", refused=True)
    response = visit.back(form.text("back"))
    visit.set_session(response, SESSION_COOKIE, session, SESSION_SECONDS)
    return response


async def left(visit: Visit) -> Response:
    """The session is over: in this browser, and wherever else its cookie may be."""
    await visit.site.door.end_session(visit.request)
    response = visit.back("/login" if visit.site.door.tokens is not None else "/")
    visit.end_session(response, SESSION_COOKIE)
    return response
