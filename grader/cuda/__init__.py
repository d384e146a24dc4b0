"""Answers in CUDA C++: read, translated for the CPU, compiled behind a wall, sent to a worker."""
