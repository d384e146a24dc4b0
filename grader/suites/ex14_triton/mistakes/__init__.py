"""What goes wrong in kernels, by name: the same arithmetic on whole tensors, without a kernel."""
