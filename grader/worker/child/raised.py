"""Describes an exception of a submission for a reply."""

import traceback
from typing import Any

FILENAME = "<submission>"
MAX_MESSAGE = 2000
VALUE_ERROR_MARK = ", a ValueError"  # follows the name of a class that is derived from ValueError


def describe_worker_error(error: BaseException) -> dict[str, Any]:
    """Return an exception's type name, message, and last line in the submission, for a reply."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILENAME]
    line = frames[-1].lineno if frames else None
    says: object = error
    if isinstance(error, SyntaxError) and error.filename == FILENAME:
        line, says = error.lineno, error.msg  # the text of the error itself names the line, too
    try:
        message = str(says)[:MAX_MESSAGE]
    except BaseException:  # a submission's own exception class may raise even here
        message = ""
    name = type(error).__name__[:100]
    if isinstance(error, ValueError) and type(error) is not ValueError:
        name += VALUE_ERROR_MARK  # passes where a ValueError is expected
    return {"type": name, "message": message, "line": line}
