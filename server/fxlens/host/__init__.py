"""The server's side of user processes: how they are started, fed, watched and ended."""
