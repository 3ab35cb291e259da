"""The registry of source kinds."""
