"""Used by both sides of the pipe between server and worker. Standard library only."""
