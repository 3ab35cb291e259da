"""The registry of report formats: a file's name is the format's name, its `render` renders it."""
