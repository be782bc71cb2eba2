"""Passes for any operator set."""
