"""Reads what students wrote: parses it, and never runs it.

The modules here import the standard library and the manifests alone. They are called in a process
of their own (`ask`), since nobody knows every text that makes a parser slow or large.
"""
