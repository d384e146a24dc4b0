"""How the cache and the layer are called on random inputs."""

import torch
from torch import bfloat16, float16, float32, float64

from grader.judging import Summed, attempt, called, differentiated, parameter_gradients, trial

RARELY = 15  # draws of which one is long
DTYPES = float32, float64, float16, bfloat16


@trial(of="LatentCache")
def appends(student, draw):
    """Appends that fit and that do not, other shapes and dtypes, and resets."""
    s = draw.sizes(B=3, Lmax=6, rank=4, rope=4)
    options = draw.choice({}, {"dtype": draw.choice(*DTYPES)}, {"device": "cpu"})
    cache = attempt(lambda: student.LatentCache(*s.values(), **options))
    yield from _seen(cache)
    for _ in range(draw.integer(1, 5)):
        if draw.integer(0, 5) == 0:
            yield attempt(cache.reset)
        t = draw.integer(0, s["Lmax"]) if draw.integer(0, 2) else 1
        shapes = [[s["B"], t, s["rank"]], [s["B"], t, s["rope"]]]
        if draw.integer(0, 3) == 0:
            draw.choice(*shapes)[draw.integer(0, 2)] += draw.choice(-1, 1, 2)
        dtype = draw.choice(float32, float32, *DTYPES)
        shapes = [[max(0, n) for n in shape] for shape in shapes]
        new = [draw.choice(draw.normal, draw.strided)(*shape, dtype=dtype) for shape in shapes]
        yield from called(cache.append, *new)
        yield from _seen(cache)


@trial(of="LatentCache")
def on_another_device(student, draw):
    """Where the buffers and what append returns are, without numbers."""
    s = draw.sizes(B=3, Lmax=3, rank=4, rope=4)
    dtype = draw.choice(*DTYPES)
    cache = attempt(lambda: student.LatentCache(*s.values(), dtype, "meta"))
    yield attempt(lambda: [cache.latents, cache.k_ropes])
    new = [torch.zeros(s["B"], 1, s[n], dtype=dtype, device="meta") for n in ("rank", "rope")]
    yield from called(cache.append, *new)


@trial(of="MultiHeadLatentAttention")
def whole_texts(student, draw):
    """Texts without a cache, both ways, with the gradients of x and of every parameter."""
    hard = draw.integer(1, RARELY) == 1
    s = draw.sizes(B=3, Lt=6) if hard else {"B": draw.integer(1, 3), "Lt": draw.integer(1, 6)}
    layer, width = _layer(student, draw, not hard and draw.integer(1, RARELY) == 1)
    dtype = draw.choice(float32, float32, *DTYPES)
    layer.to(dtype)
    getattr(layer, draw.choice("train", "eval"))()
    # In half precision every step rounds, and large scores make that any difference.
    scale = 1.0 if dtype in (float16, bfloat16) else draw.choice(1.0, 1.0, 30.0, 300.0)
    x = draw.normal(s["B"], s["Lt"], width, dtype=dtype, scale=scale)
    if draw.integer(0, 9) == 0:
        x = x[:0] if draw.integer(0, 1) else x[:, :0]
    x = x.mT.contiguous().mT if draw.integer(0, 1) else x
    absorbed = draw.choice(False, True)
    yield sorted(layer.state_dict())
    plain = hard or draw.integer(0, 1)
    run = called(layer, x, absorbed=absorbed)
    for seen in run if plain else differentiated(draw, layer, x, None, absorbed):
        yield Summed([seen])  # a layer in half precision rounds at every step
    if not plain:
        yield parameter_gradients(draw, layer, x, None, absorbed)


@trial(of="MultiHeadLatentAttention")
def chunks(student, draw):
    """Chunks of several texts, each with its cache, some of which do not fit."""
    layer, width = _layer(student, draw, False)
    sizes = layer_sizes(layer)
    dtype = draw.choice(float32, *DTYPES)
    layer.to(dtype)
    layer.requires_grad_(False)
    batch = draw.integer(1, 3)
    room = draw.choice(3, 9, 9, 9)
    room = draw.choice(70, 300) if draw.integer(1, RARELY) == 1 else room
    caches = [student.LatentCache(batch, room, *sizes, dtype) for _ in range(2)]
    for _ in range(draw.integer(1, 5)):
        t = draw.choice(0, 1, 1, 2, 5, room - 2, room)
        x = draw.normal(batch, t, width, dtype=dtype)
        cache = draw.choice(*caches)
        for seen in called(layer, x, cache, draw.choice(False, True)):
            yield Summed([seen])
        yield attempt(lambda cache=cache: [cache.length, *_held(cache)])
        if draw.integer(0, 5) == 0:
            cache.reset()


@trial(of="MultiHeadLatentAttention")
def far(student, draw):
    """A few tokens after thousands in the cache."""
    layer, width = _layer(student, draw, False)
    sizes = layer_sizes(layer)
    layer.requires_grad_(False)
    start = draw.choice(130, 600) if draw.integer(1, RARELY) > 1 else draw.choice(2100, 5000)
    cache = student.LatentCache(1, start + 4, *sizes)
    alike = draw.normal(1, start, 1).expand(1, start, sizes[1])  # in any order of a key's places
    cache.append(draw.normal(1, start, sizes[0]), alike)
    for t in (1, 3):
        yield from called(layer, draw.normal(1, t, width), cache, draw.choice(False, True))


@trial(of="MultiHeadLatentAttention")
def refused_widths(student, draw):
    """Layers with an odd rope_dim."""
    sizes = [draw.integer(1, 4) for _ in range(6)]
    made = attempt(lambda: student.MultiHeadLatentAttention(*sizes))
    yield made if isinstance(made, str) else sorted(made.state_dict())


def _layer(student, draw, hard):
    """A layer with drawn weights, and the width of its tokens."""
    most = {"E": 6, "H": 3, "nope": 4, "pairs": 3, "value": 4, "rank": 5, "q_rank": 4}
    s = draw.sizes(**most) if hard else {name: draw.integer(1, n) for name, n in most.items()}
    widths = s["E"], s["H"], s["nope"], 2 * s["pairs"], s["value"], s["rank"]
    q_rank = draw.choice(None, s["q_rank"])
    named = draw.choice({}, {"rope_base": draw.choice(1.0, 7.0, 500000.0)})
    layer = student.MultiHeadLatentAttention(*widths, q_rank, **named)
    state = layer.state_dict()
    for name in sorted(state):
        shape = state[name].shape
        state[name] = draw.normal(*shape, scale=shape[-1] ** -0.5) + float(len(shape) == 1)
    layer.load_state_dict(state)
    return layer, s["E"]


def layer_sizes(layer):
    """The widths of what a layer puts into a cache: kv_rank and rope_dim."""
    state = layer.state_dict()
    rank = len(state["kv_a_layernorm.weight"])
    return rank, len(state["kv_a_proj_with_mqa.weight"]) - rank


def _seen(cache):
    """All that shows of a cache."""
    for name in ("length", "nbytes"):
        yield attempt(lambda name=name: getattr(cache, name))
    for name in ("latents", "k_ropes"):
        yield attempt(lambda name=name: getattr(cache, name)[:, : cache.length])


def _held(cache):
    """The latents that a cache holds, and dot products of its keys: in which order the places of a
    key are kept, and what lies behind the last, is the answer's business."""
    keys = cache.k_ropes[:, : cache.length].double()
    return cache.latents[:, : cache.length], Summed([keys @ keys.mT])
