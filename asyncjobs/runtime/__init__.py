"""The tasks of a runner: what waits, claims, runs and acks."""
