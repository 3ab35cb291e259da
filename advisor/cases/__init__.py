"""Predicting setups as other people describe them: one JSON case a line, thousands at a time."""
