"""Switches that hold for the whole process."""

#: Interpreter.run shows no progress bar.
disable_progress = True

#: The progress bar names the graph that is run.
verbose_progress = False

#: Generated code of a failing GraphModule is not printed beside the error.
do_not_emit_stack_traces = False
