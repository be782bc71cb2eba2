"""Views of a record, as plain data and text: drawings, listings, the nodes of a line. No LSP in it."""
