"""Programs that tests start.

What they log goes through structlog, which imports rich where it is: 0.05 s of a core for each of some hundred programs.
"""

import sys

if "pytest" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment]
