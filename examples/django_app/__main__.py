"""Be the web server, its client, and the one who starts the worker."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

from asyncjobs import AsyncJobs, embedded


class Quiet(WSGIRequestHandler):
    """Does not log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def ask(url: str, **form: str) -> dict[str, Any]:
    """What the server answers to a GET, or to a POST when there is a form."""
    try:
        with urlopen(url, urlencode(form).encode() if form else None, timeout=30) as answer:  # noqa: S310 - its own server
            return dict(json.load(answer))
    except HTTPError as error:
        return dict(json.load(error))


def order(url: str, jobs: AsyncJobs) -> None:
    """Order twice, once in vain; wait for what was ordered."""
    placed = ask(f"{url}/orders", customer="Ada")
    print("declined:", ask(f"{url}/orders", customer="Eve", card="declined"))
    worker = subprocess.Popen([sys.executable, "-m", "asyncjobs", "run", "examples.django_app.worker:jobs"])
    try:
        while not ask(f"{url}/orders/Ada")["confirmed"]:
            time.sleep(0.05)
    finally:
        worker.terminate()
        worker.wait()
    with jobs.sync():  # a script that asks, without an event loop of its own
        print("result:  ", jobs.handle(placed["job"]).result_sync(timeout=10))


def main() -> None:
    """Make the tables, serve, order."""
    server = embedded.start_sync()  # in place of a PostgreSQL of yours
    os.environ |= {"ASYNCJOBS_DSN": server.dsn, "DJANGO_SETTINGS_MODULE": "examples.django_app.settings"}
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    from examples.django_app.jobs import jobs
    from examples.django_app.models import Order

    asyncio.run(jobs.migrate())
    Order.objects.all().delete()
    with make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Quiet) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        order(f"http://127.0.0.1:{web.server_port}", jobs)
        web.shutdown()
    server.close()


if __name__ == "__main__":
    main()
