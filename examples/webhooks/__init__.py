"""Webhook delivery: a FastAPI app accepts events and delivers each to its destination. `make demo` runs all of it.

`app` accepts and delivers, `receiver` plays twenty destinations that are slow and fail now and then, `driver` posts the events of
`events.jsonl`, `report` holds what was accepted against what arrived, and `__main__` starts them and draws the progress bar.
"""
