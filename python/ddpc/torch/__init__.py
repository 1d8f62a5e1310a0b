"""What ddpc knows about a PyTorch module."""

from .api import check, export
from .settings import ddp_settings
from .watch import GradientError, watch

__all__ = ["GradientError", "check", "ddp_settings", "export", "watch"]
