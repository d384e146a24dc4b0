"""Refuses by seccomp the system calls that a worker does not need (seccomp(2)).

The filter lists refused calls, not allowed ones, since torch and the C library may need any call
that computes. A refused call fails with EPERM, which Python shows as a PermissionError; a call
newer than this list fails with ENOSYS, as on an older kernel.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable

from . import linux

_NEWEST_CALL = 451  # number of the newest system call that this list considers
_ABSENT = None  # this machine has no such call

# name: number on x86_64, number on aarch64 (<asm/unistd_64.h>, <asm-generic/unistd.h>)
SeccompProgram = list[tuple[int, int, int, int]]
REFUSED_CALLS = {
    # other processes
    "fork": (57, _ABSENT), "vfork": (58, _ABSENT), "clone3": (435, 435),
    "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "ptrace": (101, 117), "kcmp": (312, 272),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    # the network, and calls that go around this filter
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # what Landlock leaves open: owners, modes, times, and files reached without a path
    "chmod": (90, _ABSENT), "fchmod": (91, 52), "fchmodat": (268, 53),
    "chown": (92, _ABSENT), "fchown": (93, 55), "lchown": (94, _ABSENT), "fchownat": (260, 54),
    "utime": (132, _ABSENT), "utimes": (235, _ABSENT), "futimesat": (261, _ABSENT),
    "utimensat": (280, 88), "truncate": (76, 45),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "inotify_init": (253, _ABSENT), "inotify_init1": (294, 26),
    # the view of the file system
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
    "swapon": (167, 224), "swapoff": (168, 225),
    # memory that no limit counts, or that another process could share
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # timers that wake a stopped process
    "timer_create": (222, 107),
    # the kernel
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "personality": (135, 92),
    "syslog": (103, 116), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "iopl": (172, _ABSENT), "ioperm": (173, _ABSENT),
    "vhangup": (153, 58),
    # a larger share of the machine
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235),
    # memory by other ways than its own: segments of the processor, pages that are given to a pipe
    "modify_ldt": (154, _ABSENT), "vmsplice": (278, 75),
}  # fmt: skip
# Refused where memory is measured: calls that could hold numbers elsewhere, or make a file.
_HOLDING_CALLS = {
    "pipe": (22, _ABSENT), "pipe2": (293, 59), "creat": (85, _ABSENT), "openat2": (437, 437),
    "mknod": (133, _ABSENT), "mknodat": (259, 33), "memfd_create": (319, 279),
    "socket": (41, 198), "socketpair": (53, 199), "tee": (276, 77), "splice": (275, 76),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
_OPEN, _OPENAT, _NEW_FILE = (2, _ABSENT), (257, 56), 0o20000100  # O_CREAT, O_TMPFILE
# Refused also to workers that may start processes: what would outlive them, and new namespaces.
LASTING_CALLS = ("shmget", "msgget", "semget", "mq_open", "unshare", "setns", "clone3")
# What starts a program; which program, Landlock decides.
_STARTING_CALLS = ("fork", "vfork", "execve")
_CLONE, _TGKILL, _PRLIMIT, _PRCTL = (56, 220), (234, 131), (302, 261), (157, 167)
_SECCOMP = (317, 277)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_CLONE_THREAD, _CLONE_NEWUSER = 0x10000, 0x10000000
_NEW_NAMESPACES = 0x7E020000  # all flags of clone(2) that begin with CLONE_NEW
_OF_32_BITS = 0x40000000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

# Instructions of classic BPF, and the places of a call's number, architecture and first argument.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE, _UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS


def has_seccomp_call_numbers() -> bool:
    """Return whether the list has the numbers of this machine's system calls."""
    return platform.machine() in _ARCHITECTURES


def install_seccomp_filter(*, may_start: bool = False) -> None:
    """Refuse the calls of `REFUSED_CALLS` from here on. Needs "no new privileges" to be set.

    may_start  whether this process may start the programs that Landlock lets it execute
    """
    _load_seccomp_program(
        _build_starting_seccomp_program if may_start else _build_refusing_seccomp_program
    )


def install_lasting_seccomp_filter() -> None:
    """Refuse the calls of `LASTING_CALLS` only. Needs "no new privileges" to be set."""
    _load_seccomp_program(_build_lasting_seccomp_program)


def install_holding_seccomp_filter() -> None:
    """Refuse calls that hold numbers outside memory. Needs "no new privileges" to be set."""
    _load_seccomp_program(_build_holding_seccomp_program)


def _load_seccomp_program(made: Callable[[int, int], SeccompProgram]) -> None:
    lines = made(*_ARCHITECTURES[platform.machine()])
    column, _ = _ARCHITECTURES[platform.machine()]
    filter_ = b"".join(struct.pack("=HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(filter_)
    program = struct.pack("HxxxxxxQ", len(filter_) // 8, ctypes.addressof(buffer))
    linux.make_system_call(
        _SECCOMP[column], ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_ALL_THREADS),
        ctypes.c_char_p(program),
    )  # fmt: skip


def _begin_seccomp_program(column: int, architecture: int, unknown: int) -> SeccompProgram:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, unknown),
        (_RETURN, 0, 0, _UNKNOWN),
        # The C library then falls back to clone, whose flags a filter can read.
        (_IF_EQUAL, 0, 1, REFUSED_CALLS["clone3"][column] or 0),
        (_RETURN, 0, 0, _UNKNOWN),
    ]


def _build_lasting_seccomp_program(column: int, architecture: int) -> SeccompProgram:
    program = _begin_seccomp_program(column, architecture, _OF_32_BITS)
    for name in LASTING_CALLS:
        program += [(_IF_EQUAL, 0, 1, REFUSED_CALLS[name][column] or 0), (_RETURN, 0, 0, _REFUSE)]
    program += _refuse_system_call_flags(_CLONE[column], _CLONE_NEWUSER)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _build_holding_seccomp_program(column: int, architecture: int) -> SeccompProgram:
    program = _begin_seccomp_program(column, architecture, _OF_32_BITS)
    for numbers in _HOLDING_CALLS.values():
        if (number := numbers[column]) is not None:
            program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)):
        if (number := numbers[column]) is not None:
            program += [
                (_IF_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _ARGUMENT + 8 * argument),
                (_IF_SET, 0, 1, _NEW_FILE),
                (_RETURN, 0, 0, _REFUSE),
                (_RETURN, 0, 0, _ALLOW),
            ]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _build_refusing_seccomp_program(column: int, architecture: int) -> SeccompProgram:
    clone = _refuse_system_call_unless(_CLONE[column], (_IF_SET, _CLONE_THREAD))  # threads only
    return _refuse_system_calls(column, architecture, clone, REFUSED_CALLS)


def _build_starting_seccomp_program(column: int, architecture: int) -> SeccompProgram:
    clone = _refuse_system_call_flags(_CLONE[column], _NEW_NAMESPACES)
    return _refuse_system_calls(
        column, architecture, clone, REFUSED_CALLS.keys() - set(_STARTING_CALLS)
    )


def _refuse_system_calls(
    column: int, architecture: int, clone: SeccompProgram, refused: Iterable[str]
) -> SeccompProgram:
    """Refuse calls by name, and of calls that have several uses all but the harmless one."""
    program = _begin_seccomp_program(
        column, architecture, _NEWEST_CALL + 1
    )  # x86's 32-bit calls too
    program += clone
    program += _refuse_system_call_unless(
        _TGKILL[column], (_IF_EQUAL, os.getpid())
    )  # to itself, as in abort()
    program += _refuse_system_call_unless(_PRLIMIT[column], (_IF_EQUAL, 0))  # its own limits only
    for name in sorted(refused):
        if (number := REFUSED_CALLS[name][column]) is not None:
            program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    program += _refuse_system_call_value(
        _PRCTL[column], linux.PR_SET_PDEATHSIG
    )  # it ends with its nursery
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _refuse_system_call_unless(number: int, condition: tuple[int, int]) -> SeccompProgram:
    """Refuse a call unless its first argument meets the condition."""
    test, value = condition
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (test, 0, 1, value),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]


def _refuse_system_call_flags(number: int, flags: int) -> SeccompProgram:
    """Refuse a call if any of these bits of its first argument is set."""
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (_IF_SET, 0, 1, flags),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _refuse_system_call_value(number: int, value: int) -> SeccompProgram:
    """Refuse a call if its first argument is `value`."""
    return [
        (_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _ARGUMENT),
        (_IF_EQUAL, 0, 1, value),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
