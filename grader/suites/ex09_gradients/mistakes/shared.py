"""Steps that wrong answers to several tasks share."""

import numpy as np


def raised(x):
    """float16 as float32."""
    return x.astype(np.promote_types(x.dtype, np.float32))
