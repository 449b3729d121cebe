"""A shop: orders are taken by a web app, and charged, confirmed and counted by jobs. docs/tutorial.md builds it step by step."""
