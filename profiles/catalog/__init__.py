"""Facts and their data files: each value carries where it was read. Standard library, pydantic and yaml only."""
