"""Named wrong kernels: one edit of the solution's text each, and answers that are no attention."""
