"""Benchmarks: one question a file. `make bench` answers them, `make bench-smoke` only sees that they still run."""
