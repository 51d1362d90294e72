"""structlog without rich, which would draw its tracebacks, local variables and all, where it is installed.

We draw none, and rich with what it needs is a tenth of all that a service imports.
"""

import sys

_unknown = "rich" not in sys.modules
if _unknown:
    sys.modules["rich"] = None  # pyright: ignore[reportArgumentType] # the documented way to let an import fail
try:
    import structlog
finally:
    if _unknown:
        del sys.modules["rich"]

__all__ = ["structlog"]
