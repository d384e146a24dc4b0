"""Runs everything on a GPU, quickest first, and keeps each result.

Each step runs in a process of its own and prints a line of JSON for each result, so that what goes
wrong in one leaves all others. The lines are kept in a file as they come: a run that is cut off has
its results, and the next one goes on from there. It needs torch, numpy and pytest alone.
"""
