"""What ddpc knows about a PyTorch module."""

from .api import check, export
from .settings import ddp_settings
from .watch import watch

__all__ = ["check", "ddp_settings", "export", "watch"]
