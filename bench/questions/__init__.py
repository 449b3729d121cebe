"""One question a file: its docstring asks it, its `ask` answers it. `python -m bench NAME` asks those named."""
