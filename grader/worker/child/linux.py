"""Makes system calls that Python has no function for, through the C library. Linux only."""

import ctypes
import os

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_GIVEN_BACK_BYTES = 32 << 10  # bytes; holes that are smaller add up to little


def make_system_call(number: int, *arguments: object) -> int:
    """Make the system call `number` and return its result; raises OSError if it fails."""
    result = int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments))
    return _check_system_call(result)


def set_process_attribute(option: int, value: int) -> None:
    """Set an attribute of this process (see prctl(2))."""
    library = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    _check_system_call(library.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero))


def drop_worker_capabilities() -> None:
    """Drop root's capabilities, such as raising limits, tracing, mounting and owning any file."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, in two halves each
    _check_system_call(ctypes.CDLL(None, use_errno=True).capset(header, nothing))


def return_worker_memory() -> None:
    """Return freed memory to the system at once, except small blocks (see mallopt(3))."""
    library = ctypes.CDLL(None)
    for option in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
        library.mallopt(ctypes.c_int(option), ctypes.c_int(_GIVEN_BACK_BYTES))


def _check_system_call(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
