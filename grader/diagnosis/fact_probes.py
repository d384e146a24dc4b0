"""Lists the probes of each family of functions, the most basic first."""

from collections.abc import Callable

from grader.core.diagnosis_records import Fact
from grader.diagnosis import attention_probes as attention
from grader.diagnosis import cache_probes
from grader.diagnosis import weight_probes as weights
from grader.diagnosis.probed_function import ProbedFunction
from grader.judging.draw import Draw

Probe = Callable[[ProbedFunction, ProbedFunction, Draw], Fact | None]

_WEIGHTS: tuple[Probe, ...] = (
    weights.probe_row_sums,
    weights.probe_shift,
    weights.probe_order,
    weights.probe_other_rows,
    weights.probe_large_scores,
    weights.probe_rows_apart,
)
_MASKS: tuple[Probe, ...] = (
    weights.probe_mask,
    weights.probe_hidden_score,
    weights.probe_empty_row,
)
_ATTENTION: tuple[Probe, ...] = (
    attention.probe_ignored_inputs,
    attention.probe_roles,
    attention.probe_transposed,
    attention.probe_places,
    attention.probe_mixture,
    weights.probe_row_sums,
    weights.probe_order,
    attention.probe_sizes,
    attention.probe_independence,
    attention.probe_lengths,
    attention.probe_widths,
    attention.probe_attended_keys,
    attention.probe_key_order,
    weights.probe_shift,
    weights.probe_other_rows,
)
_ATTENTION_LAST: tuple[Probe, ...] = (
    attention.probe_scale,
    weights.probe_large_scores,
    weights.probe_rows_apart,
    attention.probe_float16_products,
    weights.probe_float16,
)


def list_fact_probes(f: ProbedFunction) -> tuple[Probe, ...]:
    """Return the probes of a function's family, the most basic first.

    The probe of what an answer remembers comes first: the others compare one call with another.
    """
    match f.family:
        case "softmax":
            return (attention.probe_memory, *_WEIGHTS, weights.probe_axis, weights.probe_float16)
        case "masked":
            return (
                attention.probe_memory,
                *_WEIGHTS[:4],
                *_MASKS,
                *_WEIGHTS[4:],
                weights.probe_float16,
            )
    masks = _MASKS if "keep" in f.parameters else ()
    past = (cache_probes.probe_chunks,) if "past" in f.parameters else ()
    return (attention.probe_memory, *past, *_ATTENTION, *masks, *_ATTENTION_LAST)
