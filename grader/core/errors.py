"""The error that ends a command with a sentence."""


class UserError(Exception):
    """The command cannot go on. The message is a sentence with the cure, for whoever typed it."""


class GraderFault(Exception):
    """The grader itself failed, through no fault of whoever typed; the message says how."""
