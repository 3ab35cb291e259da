"""The checklist before a deployment: rules over one serve config, each of them data and one function."""
