"""Switches that hold for the whole process."""

#: Interpreter.run shows no progress bar.
disable_progress = True

#: The progress bar names the graph that is run.
verbose_progress = False

#: Do not print generated code beside the error when a GraphModule fails.
do_not_emit_stack_traces = False
