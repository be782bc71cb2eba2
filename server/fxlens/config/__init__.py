"""What the user has set: an editor's settings, a project's configuration, and which findings are shown then."""
