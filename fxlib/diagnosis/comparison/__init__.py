"""Runs a model and its graph side by side, to find differences that no detector knows."""
