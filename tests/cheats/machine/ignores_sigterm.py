"""Ignores and blocks every signal that can be, gives up its death with its parent, and loops.

exercise: ex01_softmax
call_seconds: 1
"""

import signal

import torch


def softmax_numpy(x, axis=-1):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    torch.ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    while True:
        pass
