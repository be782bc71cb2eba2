"""What both sides of the pipe between server and worker use.  Standard library only."""
