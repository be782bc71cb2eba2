"""Symbolic tracing: from a module or function to a graph.

`symbolic_trace` is the whole in one call. `tracer` runs a program on proxies (`proxy`); `tracer_base` and `arguments`
turn what happens to them into nodes, `hot_loop` in one pass where nothing is overridden. `root` and `root_arguments`
are where a trace starts, `wrapping` and `module_hooks` what it patches; `scopes`, `sites` and `metadata` are what nodes
know of where they came from.
"""
