"""Jobs of a Django project: a view enqueues in its transaction, a worker process runs handlers that use the models.

Run it with `python -m examples.django_app`: it serves itself, orders over HTTP, and runs the worker.
"""
