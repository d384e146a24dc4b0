"""What the suite calls, in the worker: the student's functions on tensors.

functions(machine)  by name, for `grader.cuda.machine.Machine` or one like it
"""

from functools import partial


def functions(machine):
    return {
        "naive_attention": partial(attention, machine, "naive_attention"),
        "tiled_attention": partial(attention, machine, "tiled_attention"),
        "numbers_read": partial(numbers_read, machine),
        "last_row": partial(last_row, machine),
    }


def attention(machine, name, q, k, v, scale, causal):
    """q (..., Lq, D), k (..., Lk, D), v (..., Lk, D) -> (..., Lq, D)."""
    q_len, width = q.shape[-2:]
    sizes = q.shape[:-2].numel(), q_len, k.shape[-2], width
    inputs = {"q": q, "k": k, "v": v}
    return machine.call(name, inputs, q.shape, *sizes, float(scale), int(causal))


def numbers_read(machine, name, q, k, v, scale, causal):
    """How many numbers a kernel reads from k and v in global memory to compute attention."""
    attention(machine, name, q.cpu(), k.cpu(), v.cpu(), scale, causal)
    return machine.loads["k"] + machine.loads["v"]


def last_row(machine, name, q, k, v, heads, q_len, scale):
    """The last of `heads * q_len` rows (D): every query is q (D), every head has k, v (Lk, D).

    None where it cannot be asked.
    """
    (k_len, width), rows = k.shape, heads * q_len
    inputs = {
        "q": (rows * width, q.cpu()),
        "k": (heads * k_len * width, k.cpu()),
        "v": (heads * k_len * width, v.cpu()),
    }
    sizes = heads, q_len, k_len, width
    return machine.far(name, inputs, rows * width, width, *sizes, float(scale), 0)
