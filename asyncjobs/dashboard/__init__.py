"""The dashboard: pages for operators over `jobs.admin`, mounted in an app or served alone. Needs the extra `dashboard`.

Mount it in a FastAPI or Starlette app whose lifespan opens `jobs`:

    app = FastAPI(lifespan=jobs.lifespan)
    app.mount("/jobs", Dashboard(jobs, auth=who))

Serve it alone with any ASGI server. It opens no app by itself, so the process opens `jobs` around the server:

    async with jobs:
        page = Dashboard(jobs, auth=Tokens(operator=token))
        server = uvicorn.Server(uvicorn.Config(page, host="127.0.0.1", port=8080, lifespan="off", proxy_headers=False))
        await server.serve()

Who may see it has to be said; without that `Dashboard` raises ConfigurationError. `auth` is

* a function of the request, `async` or not, that returns a `Viewer`, the name of one who may do everything, or None for nobody.
  What it raises as an HTTPException (a redirect to a login, too) is answered as such;
* `Tokens`, or one token as a text: people enter it on a login page, programs send it as `Authorization: Bearer`.

Or `allow_anonymous=True`: whoever asks from this machine, by its own name (`localhost`, 127.0.0.1, ::1) and not through a proxy,
may do everything. Others are refused, whatever address the server listens on.

`read_only=True` takes the verbs away from everybody; a `Viewer(may_act=False)` only sees. Each verb is told to the app's events
(`VerbUsed`), so to its log, with who used it.
"""

from asyncjobs.dashboard.access import Auth, Tokens, Viewer
from asyncjobs.dashboard.site import Dashboard

__all__ = ["Auth", "Dashboard", "Tokens", "Viewer"]
