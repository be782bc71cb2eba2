"""Passes as objects, their order, and partitions by what a backend supports."""
