"""Errors, limits, options and ports that all other packages use."""
