"""Calls the student's functions on tensors, in the worker, for the suite.

functions(machine, sanitizer)  by name, for a `Machine` of `grader.cuda.kernel_machine` and a
                               `Sanitizer` of `grader.cuda.sanitizer`
"""

from functools import partial


def functions(machine, sanitizer):
    return {
        "naive_attention": partial(attention, machine, "naive_attention"),
        "tiled_attention": partial(attention, machine, "tiled_attention"),
        "counted": partial(counted, machine),
        "last_row": partial(last_row, machine),
        "sanitized": partial(sanitized, machine, sanitizer),
    }


def attention(machine, name, q, k, v, scale, causal):
    """q (..., Lq, D), k (..., Lk, D), v (..., Lk, D) -> (..., Lq, D)."""
    q_len, width = q.shape[-2:]
    sizes = q.shape[:-2].numel(), q_len, k.shape[-2], width
    inputs = {"q": q, "k": k, "v": v}
    return machine.call(name, inputs, q.shape, *sizes, float(scale), int(causal))


def counted(machine, name, q, k, v, scale, causal):
    """Count what the kernels do to compute attention, on the CPU.

    workers    the threads of a launch that use global memory, of the launch that has the most
    read       numbers of k and v, or of what was made of them, that come from global memory
    stored     numbers that are written to shared memory
    exchanged  numbers that a thread reads there and that another one has written
    """
    attention(machine, name, q.cpu(), k.cpu(), v.cpu(), scale, causal)
    found = machine.counts
    read = machine.loads["k"] + machine.loads["v"] + found["copies_read"]
    return found["workers"], read, found["shared_stores"], found["exchanged"]


def last_row(machine, name, q, k, v, heads, q_len, scale):
    """Compute the last of `heads * q_len` rows (D): q (D) for all rows, k, v (Lk, D) for all heads.

    Return None where the machine cannot compute it.
    """
    (k_len, width), rows = k.shape, heads * q_len
    inputs = {
        "q": (rows * width, q.cpu()),
        "k": (heads * k_len * width, k.cpu()),
        "v": (heads * k_len * width, v.cpu()),
    }
    sizes = heads, q_len, k_len, width
    return machine.far(name, inputs, rows * width, width, *sizes, float(scale), 0)


def sanitized(machine, sanitizer, name, tool, size, causal):
    """Return how many of compute-sanitizer's tools ran, 1 or 0; raise a finding at its line."""
    heads, q_len, k_len, width = size
    arrays = [heads * n * width for n in (q_len, k_len, k_len, q_len)]
    try:
        found = sanitizer.ask(tool, name, (*arrays, *size, 0.3, int(causal)))
    except LookupError:
        return 0
    if found is not None:
        machine.tell(*found)
    return 1
