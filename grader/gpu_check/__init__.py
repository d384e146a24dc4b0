"""Runs everything on a GPU, quickest first, and keeps each result.

Each step runs in a process of its own and prints a line of JSON for each result, so that a fault in
one does not harm the others. The lines are kept in a file as they come: a run that is cut off keeps
its results, and the next one goes on from there. Only torch, numpy and pytest are needed.
"""
