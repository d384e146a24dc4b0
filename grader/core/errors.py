"""The error that ends a command with a sentence."""


class UserError(Exception):
    """Raised if a command cannot go on. The message tells the user why, and what to do."""


class GraderFault(Exception):
    """Raised if the grader itself failed, through no fault of the user; the message says how."""
