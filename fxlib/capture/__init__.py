"""Symbolic tracing: from a module or function to a graph.

`symbolic_trace` does it in one call. `tracer` runs a program on proxies (`proxy`); `tracer_base` and `arguments` turn
operations on them into nodes, and `hot_loop` does so in one pass where nothing is overridden. `root` and
`root_arguments` set up a trace, `wrapping` and `module_hooks` patch what it needs; `scopes`, `sites` and `metadata`
record where nodes came from.
"""
