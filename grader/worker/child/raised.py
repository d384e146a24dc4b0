"""Describes an exception of a submission for a reply."""

import dis
import re
from types import TracebackType
from typing import Any

FILENAME = "<submission>"
MAX_MESSAGE = 2000
VALUE_ERROR_MARK = ", a ValueError"  # follows the name of a class that is derived from ValueError


def describe_worker_error(error: BaseException) -> dict[str, Any]:
    """Return an exception's type name, message, and last line in the submission, for a reply."""
    loading = error if isinstance(error, SyntaxError) and error.filename == FILENAME else None
    says = loading.msg if loading else error  # its own text names the line, too
    try:
        message = str(says)[:MAX_MESSAGE]
    except BaseException:  # a submission's own exception class may raise even here
        message = ""
    line = loading.lineno if loading else _find_raising_line(error, message)
    name = type(error).__name__[:100]
    if isinstance(error, ValueError) and type(error) is not ValueError:
        name += VALUE_ERROR_MARK  # passes where a ValueError is expected
    return {"type": name, "message": message, "line": line}


def _find_raising_line(error: BaseException, message: str) -> int | None:
    """Return the last line of the submission that an exception passed; None without one."""
    trace, last = error.__traceback__, None
    while trace is not None:
        last = trace if trace.tb_frame.f_code.co_filename == FILENAME else last
        trace = trace.tb_next
    if last is None:
        return None
    unset = isinstance(error, UnboundLocalError) and re.search(r"'(\w+)'", message)
    return (_find_line_that_reads(last, unset[1]) if unset else None) or last.tb_lineno


def _find_line_that_reads(trace: TracebackType, name: str) -> int | None:
    """Return the line of the instruction that reads a variable, at the place of an exception.

    Python joins two instructions that it runs often, and gives the line of the first.
    """
    places = range(trace.tb_lasti, trace.tb_lasti + 4, 2)
    for one in dis.get_instructions(trace.tb_frame.f_code):
        if one.offset in places and one.opname.startswith("LOAD_FAST") and one.argval == name:
            return one.positions.lineno if one.positions else None
    return None
