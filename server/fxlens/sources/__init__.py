"""Facts from a project's text: positions, classes, how models are constructed and called. Standard library only: used
by both sides of the pipe."""
