"""What TensorRT and TensorRT-RTX share: one API under two module names."""
