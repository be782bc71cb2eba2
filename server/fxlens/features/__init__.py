"""One file per feature of the language server.  Each has ``register(server)``."""
