"""Examples: one idea a file, each run by the test suite. `python examples/quickstart.py` is the shortest."""
