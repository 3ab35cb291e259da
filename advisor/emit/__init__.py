"""Turns a decision into what an engine boots from."""
