"""What the text of a project says: positions, classes, how models are made and called.  Standard library only: both
sides of the pipe read it."""
