"""The worker: `DJANGO_SETTINGS_MODULE=examples.django_app.settings asyncjobs run examples.django_app.worker:jobs`."""

import django

django.setup()

from examples.django_app.jobs import jobs  # noqa: E402 - models can be imported from here on

__all__ = ["jobs"]
