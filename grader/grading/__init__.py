"""Grades: one exercise, a run over many, a replay of an earlier report."""
