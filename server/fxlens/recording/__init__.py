"""Recording from a real run how the workspace's modules are constructed and called."""
