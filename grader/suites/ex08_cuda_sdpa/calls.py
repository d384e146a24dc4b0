"""Draws inputs of fast_attention, and compares its answers."""

import torch
from torch import float16, float32, float64

from grader.judging import Hard, agree, backward, gradcheck
from reference import ex08_cuda_sdpa as reference
from reference import raised
from reference.expected import add_up

USUAL = {"B": 2, "H": 3, "Lq": 5, "Lk": 9, "D": 6, "Dv": 5}  # H heads of keys and values
OPTIONS = [  # alone and together
    (), ("causal",), ("keep",), ("bias",), ("keep", "bias"),
    ("causal", "keep"), ("causal", "bias"), ("causal", "keep", "bias"),
]  # fmt: skip

LOW = "output (the bias is -1e30)"


def sizes_of(draw, case, limits=None):
    """Return the sizes of a case: the sizes of a hard kind, or the case's own."""
    if isinstance(case, Hard):
        return draw.hard(case, limits, **USUAL)
    return [dict(zip(USUAL, case, strict=True))]


def qkv(draw, dtype=float32, group=1, **sizes):
    """Draw queries, keys and values; `group` query heads read one head of keys."""
    s = USUAL | sizes
    q = draw.normal(s["B"], s["H"] * group, s["Lq"], s["D"], dtype=dtype)
    k = draw.normal(s["B"], s["H"], s["Lk"], s["D"], dtype=dtype)
    return q, k, draw.normal(s["B"], s["H"], s["Lk"], s["Dv"], dtype=dtype)


def options_of(draw, names, q, k, empty=False):
    """Return the options of these names, with a mask and a bias as large as the scores.

    empty   whether the mask has rows that see nothing, some in one head alone
    """
    full = (*q.shape[:-1], k.shape[-2])
    keep = draw.keep(*full)
    if empty:
        keep[..., full[-2] // 2, :] = False
        keep[..., 0, -1, :] = False
    made = {"keep": keep, "bias": draw.normal(*full, dtype=q.dtype, scale=2.0), "causal": True}
    return {name: made[name] for name in names}


def agree_output(student, q, k, v, says=None, **options):
    """Compare the output for these inputs with the reference's."""
    right = reference.fast_attention(q, k, v, **options)
    agree(student.fast_attention(q, k, v, **options), right, says=says)


def agree_gradients(student, draw, q, k, v, **options):
    """Compare the gradients of q, k, v and of a bias."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    learned = dict(zip("qkv", leaves, strict=True))
    if "bias" in options:
        learned["bias"] = options["bias"].detach().clone().requires_grad_()
        options["bias"] = learned["bias"]
    upstream = draw.normal(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    output = student.fast_attention(*leaves, **options)
    grads = backward(output, *learned.values(), upstream=upstream)
    rights = reference.fast_attention_gradients(*leaves, **options, upstream=upstream)
    for name, got, right in zip(learned, grads, rights, strict=True):
        agree(got, right, says=f"gradient of {name}")


def agree_gradients_of_one(student, draw, x, **options):
    """Compare the gradient of one tensor passed as q, k and v with the sum of three gradients."""
    draw.hard(Hard.SAME)
    x, upstream = x.requires_grad_(), draw.normal(*x.shape, dtype=x.dtype)
    output = student.fast_attention(x, x, x, **options)
    [got] = backward(output, x, upstream=upstream)
    parts = reference.fast_attention_gradients(x, x, x, **options, upstream=upstream)
    agree(got, add_up(parts[:3]), says="gradient of a tensor that is q, k and v")


def agree_by_differences(student, draw, names):
    """Compare the gradients with finite differences."""
    q, k, v = (x.requires_grad_() for x in qkv(draw, float64, B=1, H=1, Lq=2, Lk=3, D=2, Dv=1))
    options = options_of(draw, names, q, k)
    gradcheck(lambda q, k, v: student.fast_attention(q, k, v, **options), q, k, v)


def agree_when_loud(student, draw, dtype, names):
    """Compare half precision that must add in float32: 16 products of 256 * 256 exceed float16."""
    q, k, v = qkv(draw, dtype, Lq=261, Lk=17, D=16, Dv=64)
    loud = torch.full_like(q, 256)
    some = draw.keep(2, 3, 1, 17).mT * torch.full_like(k, 256)  # these keys share all the weight
    options = options_of(draw, names, q, k)
    right = raised(reference.fast_attention, loud, some, v, **options)
    output = student.fast_attention(loud, some, v, **options)
    agree(output, right, says="output (queries and keys of 256)")


def agree_on_hard_scores(student, draw, names):
    """Compare outputs for scores that are hundreds apart, or all far below 0."""
    for name, scores in draw.scores(2, 3, 5, 64).items():
        k = torch.eye(64, device=scores.device).expand(2, 3, 64, 64)  # the scores are q / 8
        v = draw.normal(2, 3, 64, 5)
        options = options_of(draw, names, scores, k)
        for low in (0, 200):
            says = f"output ({name} scores)"
            agree_output(student, (scores - low) * 8, k, v, says=says, **options)


def agree_with_any_scale(student, draw, *names):
    """Compare scales of 0 and below, for fewer, as many and more queries than keys."""
    draw.hard(Hard.OPTIONS)
    for q_len, width in ((1, 5), (5, 5), (9, 5), (9, 6), (12, 5)):  # 9 keys, whose width is 6
        q, k, v = qkv(draw, Lq=q_len, Dv=width)
        q[..., 0] = 0.0  # which nothing can be divided by
        options = options_of(draw, names, q, k)
        for scale in (0.0, 0, -0.7, 0.125, 2):
            agree_output(student, q, k, v, scale=scale, **options)


def agree_behind_large_keys(student, draw, causal):
    """Check that hidden keys and values count for nothing, up to 1e30."""
    q, k, v = qkv(draw)
    hiding = draw.keep(2, 1, 1, 9)
    hiding[..., 1] = False
    clean = reference.fast_attention(q, k, v, hiding, causal)
    for large in (1e4, -1e30, 1e30):
        hidden = [x.masked_fill(~hiding.mT, large) for x in (k, v)]
        output = student.fast_attention(q, *hidden, hiding, causal)
        agree(output, clean, says=f"output (hidden keys and values of {large:g})")
    leaves = [x.detach().clone().requires_grad_() for x in (q, *hidden)]
    upstream = draw.normal(*q.shape[:-1], v.shape[-1])
    output = student.fast_attention(*leaves, hiding, causal)
    grads = backward(output, *leaves, upstream=upstream)
    rights = reference.fast_attention_gradients(q, k, v, hiding, causal, upstream=upstream)
    for name, got, right in zip("qkv", grads, rights, strict=False):
        agree(got, right, says=f"gradient of {name} (hidden keys and values of 1e30)")
    seen_late = draw.keep(2, 3, 5, 9)  # key 4 is hidden from the first 3 queries alone
    seen_late[..., :3, 4], seen_late[..., 3:, 4], seen_late[..., 0] = False, True, True
    clean = reference.fast_attention(q, k, v, seen_late, causal)
    clean = clean._replace(exact=clean.exact[..., :3, :], plain=clean.plain[..., :3, :])
    loud = [x.index_fill(-2, torch.tensor(4, device=x.device), 1e30) for x in (k, v)]
    output = student.fast_attention(q, *loud, seen_late, causal)[..., :3, :]
    agree(output, clean, says="output of queries from which a key and value of 1e30 are hidden")
    low = torch.full_like(q[..., :1], -1e30)  # beside which a hidden score of -1e9 is high
    agree_output(student, q, k, v, keep=hiding, bias=low, causal=causal, says=LOW)


def agree_before_large_keys(student, q, k, v):
    """Check that a last key and value of 1e30 change nothing for the queries before."""
    few = [x[:, :, :-1] for x in (q, k, v)]
    early = reference.fast_attention(*few, causal=True)
    k, v = k.clone(), v.clone()
    k[:, :, -1], v[:, :, -1] = 1e30, 1e30
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    output = student.fast_attention(*leaves, causal=True)[:, :, :-1]
    agree(output, early, says="output (the last key and value are 1e30)")
    upstream = torch.ones_like(output)
    rights = reference.fast_attention_gradients(*few, causal=True, upstream=upstream)
    for name, got, right in zip(
        "qkv", backward(output, *leaves, upstream=upstream), rights, strict=True
    ):
        says = f"gradient of {name} (the last key and value are 1e30)"
        agree(got[:, :, :-1], right, says=says)


def agree_in_dtype(student, draw, dtype, names):
    """Compare outputs and gradients of a dtype; a mask has rows that see nothing."""
    for q_len in (5, 12):
        q, k, v = qkv(draw, dtype, Lq=q_len, D=16, Dv=8)
        options = options_of(draw, names, q, k, empty=True)
        for scale in (None, 0.6, 1000.0) if dtype is float64 else (None, 0.6):
            agree_output(student, q, k, v, scale=scale, **options)
        if q_len == 5:
            agree_gradients(student, draw, q, k, v, **options)
    q, k, v = qkv(draw, dtype, Lq=33, Lk=65, D=20, Dv=17)
    agree_output(student, q, k, v, **options_of(draw, names, q, k))
    if dtype is float64:
        if len(names) == 3:
            agree_by_differences(student, draw, names)
    else:
        agree_when_loud(student, draw, dtype, names)
    if dtype is float16:
        agree_with_large_scale(student, draw, names)
    if "keep" in names:
        hide(student, draw, dtype, "causal" in names)


def agree_with_large_scale(student, draw, names):
    """Compare scores of float16 whose scale, times a query or a key, is too much for float16."""
    for loud, quiet in ((0, 1), (1, 0)):
        inputs = qkv(draw, float16, D=16)
        inputs[loud][..., 0] = 3e4
        inputs[quiet][..., 0] *= 2e-4
        options = options_of(draw, names, *inputs[:2]) | {"scale": draw.choice(2.5, 3.0, 4.0)}
        right = raised(reference.fast_attention, *inputs, **options)
        output = student.fast_attention(*inputs, **options)
        says = f"output ({'qk'[loud]} is large, and so is scale * {'qk'[loud]})"
        agree(output, right, says=says)


def hide(student, draw, dtype, causal):
    """Check that hidden keys and values of a dtype count for nothing, however large."""
    q, k, v = qkv(draw, dtype)
    hiding = draw.keep(2, 1, 1, 9)
    hiding[..., 1] = False
    clean = reference.fast_attention(q, k, v, hiding, causal)
    large = 1e4 if dtype is float16 else 1e30
    output = student.fast_attention(
        q, *(x.masked_fill(~hiding.mT, large) for x in (k, v)), hiding, causal
    )
    agree(output, clean, says=f"output (hidden keys and values of {large:g})")
