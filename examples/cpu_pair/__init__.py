"""A real model pair for speculative decoding on a machine without a GPU."""
