"""What ddpc knows about a PyTorch module."""

import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(f"ddpc.torch needs PyTorch, which {sys.executable} does not have; use the Python that trains",
                              name="torch")

from .api import check, export
from .profile import profile
from .settings import ddp_settings
from .watch import GradientError, watch

__all__ = ["GradientError", "check", "ddp_settings", "export", "profile", "watch"]
