"""Runs the first failing case of an answer in the debugger, with the student's frame on top."""
