"""The one place the version is written; the build, `--version` and every record read it from here."""

__version__ = "0.1.0"
