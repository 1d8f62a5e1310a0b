"""What ddpc knows about a PyTorch module."""
