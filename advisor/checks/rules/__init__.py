"""The registry of rules: one family a file, each with its `RULES`; the file's name is the family's name."""
