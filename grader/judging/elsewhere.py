"""Whether an answer heeds the device that it is given, shown on any machine."""

from typing import Any

from grader.judging.agree import expect
from grader.judging.case import StudentFault

# What torch says where tensors of two devices meet; its other errors on `meta` tell of numbers
# that were to be read, and there are none.
TWO_DEVICE_MESSAGES = ("expected device", "same device")


def on_meta(call: Any, *args: Any, **kwargs: Any) -> None:
    """Pass if a call that is given the device `meta`, or tensors on it, returns tensors on it.

    Such tensors have no numbers. An answer that reads some (`lengths.tolist()`, `if keep.any()`)
    may be right on a device that has them: of it this says nothing.
    """
    try:
        found = call.devices(*args, **kwargs)
    except StudentFault as problem:
        said = problem.detail.lower()
        if "meta" in said and not any(words in said for words in TWO_DEVICE_MESSAGES):
            return
        raise
    other = sorted({str(device) for device in found} - {"meta"})
    expect(not other, f"the device given is meta, but the answer is on {' and '.join(other)}")
