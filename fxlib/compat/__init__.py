"""What exists only because programs written for torch.fx import it; nothing else in this project uses it."""
