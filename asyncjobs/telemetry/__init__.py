"""Typed events, and the sinks that turn them into logs, metrics and traces."""
