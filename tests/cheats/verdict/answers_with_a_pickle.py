"""Returns objects that run a command where they are unpickled, in every form that may be.

exercise: ex01_softmax
"""

import base64
import io
import os

import numpy as np
import torch


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @OUTSIDE@/abh-cheat-unpickled /tmp/abh-cheat-unpickled",)


file = io.BytesIO()
torch.save(Bomb(), file, _use_new_zipfile_serialization=False)
PICKLE = file.getvalue()


def softmax_numpy(x, axis=-1):
    return np.array([Bomb(), PICKLE, base64.b64encode(PICKLE).decode()], dtype=object)


def softmax(x, dim=-1):
    return {"tensor": PICKLE.decode("latin-1"), "__reduce__": [PICKLE, Bomb()], Bomb(): Bomb}
