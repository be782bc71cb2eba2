"""Running and rewriting graphs: the interpreter, the transformer, pattern replacement."""
