"""Grades one exercise, a run over many, and an earlier report once more."""
