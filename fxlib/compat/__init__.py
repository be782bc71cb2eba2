"""Only for programs written for torch.fx that import it; nothing else in this project uses it."""
