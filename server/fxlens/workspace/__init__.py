"""The open documents of a language server: when each is traced, and its results. No LSP in it."""
