"""Editor settings, project configuration, and the selection of findings by them."""
