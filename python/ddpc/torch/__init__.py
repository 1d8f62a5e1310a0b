"""What ddpc knows about a PyTorch module."""

from .api import check, export

__all__ = ["check", "export"]
