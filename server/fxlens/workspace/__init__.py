"""The open documents of a language server: when each is traced, and what is known of it.  No LSP in it."""
