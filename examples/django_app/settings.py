"""The least that Django needs. Its database is the one with the jobs; psycopg 3 is its driver."""

import os
from urllib.parse import urlsplit

_dsn = urlsplit(os.environ["ASYNCJOBS_DSN"])

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _dsn.hostname,
        "PORT": _dsn.port,
        "NAME": _dsn.path.strip("/"),
        "USER": _dsn.username,
        "PASSWORD": _dsn.password,
    }
}
INSTALLED_APPS = ["examples.django_app"]
ROOT_URLCONF = "examples.django_app.views"
ALLOWED_HOSTS = ["127.0.0.1"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True
