"""``fxlens check``: files found, traced side by side, kept in a cache, and written in four formats."""
