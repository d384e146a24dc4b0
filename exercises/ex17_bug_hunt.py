# Skeleton ex17_bug_hunt 8f764b01cab3f258. The lesson: docs/lessons/ex17_bug_hunt.en.md
"""Bug hunt: write the bodies, then run `make grade EX=ex17_bug_hunt`.

Not allowed: PyTorch's fused attention operator and its attention modules. Mend what is there, and
leave `drill` as it was.
"""

import math

import torch


def drill() -> str:
    """Say which drill this is, as `make drill` wrote it.

    returns the exercise and the number, such as "ex05_causal_mask 6"
    """
    raise NotImplementedError("Say which drill this is, as `make drill` wrote it.")


def mistake() -> str:
    """Return the name of the mistake that you found.

    returns one of the names at the head of the drill's file
    """
    raise NotImplementedError("Return the name of the mistake that you found.")
