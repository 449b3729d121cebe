"""Handlers in several modules: each declares on a router of its own and knows neither the database nor the app.

Run it with `python -m examples.routers`.
"""
