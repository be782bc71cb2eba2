"""Running a model and its graph side by side: what no detector knows shows as a difference."""
