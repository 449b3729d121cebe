"""The jobs. Views import this; it is never opened where they run, since they enqueue on Django's connection."""

from django.db import connections

from asyncjobs import AsyncJobs
from examples.django_app.models import Order

jobs = AsyncJobs()  # at $ASYNCJOBS_DSN, when the worker opens it


@jobs.job("django.confirm", serialize_by="order_{order_id}")
def confirm(order_id: int) -> str:
    """A plain `def` runs in a thread, where Django opens a connection: it is closed at the end."""
    try:
        order = Order.objects.get(pk=order_id)
        order.confirmed = True
        order.save()
    finally:
        connections.close_all()
    return f"confirmed to {order.customer}"
