"""Symbolic tracing: a program runs on proxies, and what happens to them becomes a graph."""
