"""What the checks of the block have in common: modules of both sides, and what is asked of them."""

import torch

from grader.judging import agree, backward, expect
from reference import ex12_attention_block as reference

DROPPED = 0.3
FAR = 6  # standard deviations; a right answer is as far away twice in a thousand million times


def pair(student, draw, device, name, *sizes, dtype, **options):
    """A module of the student's and the reference's, with the same weights."""
    right = getattr(reference, name)(*sizes, **options)
    module = getattr(student, name)(*sizes, **options)
    module.to(device, dtype)
    for parameter, wanted in right.state_dict().items():
        got = getattr(module.read(parameter), "shape", None)
        got, wanted = got if got is None else tuple(got), tuple(wanted.shape)
        expect(got == wanted, f"the shape of {parameter} is {got}, but should be {wanted}")
    load(module, right, draw, dtype)
    return module, right


def load(module, right, draw, dtype, identity=False):
    """New weights for both; with `identity` projections that change nothing, and norms of 256."""
    state = {}
    for name, old in right.state_dict().items():
        new = draw.normal(*old.shape, dtype=dtype, scale=old.shape[-1] ** -0.5)
        if old.ndim == 1:  # a bias, or the weight of a norm
            new = draw.normal(*old.shape, dtype=dtype, scale=0.3) + ("bias" not in name)
        if identity:
            size = 256.0 * ("norm" in name)
            new = torch.eye(len(new)).to(new) if old.ndim == 2 else torch.full_like(new, size)
        state[name] = new
    module.load_state_dict(state, strict=False)  # buffers of the student's own are welcome
    right.load_state_dict(state)


def lacks(module, *names):
    """Parts that were not asked for are not in a module's state_dict."""
    state = module.state_dict()
    expect(isinstance(state, dict), "state_dict() should return a dict")
    there = [name for name in names if name in state]
    expect(not there, f"the state_dict has {', '.join(there)}, which nobody asked for")


def count(student, module, fused, x, keep):
    """The products of matrices in one call, as its process tells."""
    module.fused = fused
    told = [student.told("products"), module(x, keep), student.told("products")]
    before, after = (n if type(n) is int else 0 for n in told[::2])
    return after - before


def far(student, draw, device, length, dtype):
    """The output at some tokens of a text so long, the right one, and what to call it.

    One head of four pairs, whose scores are large enough for single tokens to be chosen.
    """
    sizes, options = (8, 1, False), {"rope_base": 10.0, "dtype": dtype}
    module, right = pair(student, draw, device, "SelfAttention", *sizes, **options)
    x = draw.normal(1, length, 8, dtype=dtype, scale=2.0)
    places = [0, 1, *range(length // 4, length, length // 8), length - 1]
    return module(x)[:, places], right.rows(x, places), f"output at tokens {places}"


def gradients(draw, module, right, *inputs, keep=None):
    """The gradients of inputs and parameters are right."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    upstream = draw.normal(*inputs[0].shape, dtype=inputs[0].dtype)
    expected = right.gradients(*inputs, keep=keep, upstream=upstream)
    module.zero_grad()
    output = module(*leaves) if keep is None else module(*leaves, keep)
    got = backward(output, *leaves, upstream=upstream)
    for name, one, answer in zip(("x", "the context"), got, expected, strict=False):
        agree(one, answer, says=f"gradient of {name}")
    for name, answer in zip(right.state_dict(), expected[len(leaves) :], strict=True):
        agree(module.read(f"{name}.grad"), answer, says=f"gradient of {name}")


class OpenWeights:
    """Self-attention with dropout from whose output the attention weights can be read.

    Two heads of 32 numbers, and 32 tokens that are unit vectors, once for each head: unprojected
    as values they put weight j into column j. `o` mixes all columns and is its own inverse, so
    that a dropped column of the output does not look like a dropped weight.
    """

    def __init__(self, student, draw, device, dropout, dtype):
        options = {"qk_norm": False, "dropout": dropout, "dtype": dtype}
        self.module, self.right = pair(student, draw, device, "SelfAttention", 64, 2, **options)
        self.mixing = torch.ones(1, 1, dtype=dtype, device=device)
        for _ in range(6):
            top, low = [self.mixing, self.mixing], [self.mixing, -self.mixing]
            self.mixing = torch.cat([torch.cat(top, 1), torch.cat(low, 1)])
        self.mixing = self.mixing / 8  # orthogonal
        state = {name: torch.zeros_like(x) for name, x in self.right.state_dict().items()}
        state |= {"v.weight": torch.eye(64).to(self.mixing), "o.weight": self.mixing}
        for name in ("q.weight", "k.weight"):  # weights between 0.001 and 0.5, or so
            state[name] = draw.normal(64, 64, dtype=dtype, scale=0.6)
        self.module.load_state_dict(state, strict=False)
        self.right.load_state_dict(state)
        units = torch.eye(32, dtype=dtype, device=device)
        self.x = torch.cat([units, units], -1).repeat(4, 1, 1)  # (B, L, E)

    def read(self, output):
        """The weights (B, Lq, H, Lk) behind an output (B, L, E)."""
        return (output.to(self.mixing) @ self.mixing).unflatten(-1, (2, 32))

    def evaluated(self, keep, says):
        """In this mode nothing is dropped; returns the right weights."""
        output, expected = self.module(self.x, keep), self.right(self.x, keep)
        weights = self.read(torch.from_numpy(expected.exact))
        missing = (self.read(output).abs() < weights / 2) & (weights > 1e-6)
        expect(not missing.any(), f"weights are dropped {says}")
        agree(output, expected, says=f"output {says}")
        return weights

    def dropped(self, keep, weights):
        """What a call in training gives: `weights` of which a share is 0, and the rest grew."""
        output = self.module(self.x, keep)
        kind, right = output.dtype, self.x.dtype
        expect(kind == right, f"in training output.dtype is {kind}, but should be {right}")
        got, there, grown = self.read(output), weights > 1e-6, weights / (1 - DROPPED)
        stays = there & (got > weights / 2)
        count, gone = int(there.sum()), int((there & ~stays).sum())
        expect(not float((got - weights).abs().max()) <= 1e-4,
               f"in training nothing changes, although dropout is {DROPPED}")  # fmt: skip
        expect(bool((there & (got.abs() < weights / 100)).any()),
               f"in training no weight becomes 0, although dropout is {DROPPED}")  # fmt: skip
        expect(int((output == 0).sum()) < count // 100,
               "in training numbers of the output are 0: the attention weights should be dropped, "
               "before they meet the values")  # fmt: skip
        factor = (got * stays).sum() / (weights * stays).sum()
        says = "in training, the factor of the weights that are not dropped"
        agree(factor, torch.tensor(1 / (1 - DROPPED)), says=says, within=1e-4)
        says = "in training, the weights (each 0, or divided by 1 - dropout)"
        exact = 1e-5 if weights.dtype == torch.float32 else 1e-10
        agree(got, torch.where(stays, grown, 0.0), says=says, within=exact)
        far = FAR * (count * DROPPED * (1 - DROPPED)) ** 0.5
        expect(abs(gone - count * DROPPED) <= far,
               f"{gone} of {count} weights are dropped, but dropout is {DROPPED}")  # fmt: skip
        far = FAR * float((weights**2).sum() * DROPPED / (1 - DROPPED)) ** 0.5
        total, wanted = float(got.sum()), float(weights.sum())
        expect(abs(total - wanted) <= far,
               f"the weights add up to {total:.6g}, but should stay near {wanted:.6g}")  # fmt: skip
        hit = there & ~stays
        for axis, name in enumerate(("text", "query", "head", "key")):
            alike = (hit | ~there) == (hit | ~there).narrow(axis, 0, 1)
            why = f"every {name} loses the same weights: draw for each weight by itself"
            expect(not bool(alike.all()), why)
        return output

    def gradient(self, keep):
        """The gradient of the values' bias is the sum of the weights that were not dropped."""
        leaf = self.x.clone().requires_grad_()
        self.module.zero_grad()
        output = self.module(leaf, keep)
        backward(output, leaf, upstream=torch.ones_like(self.x) @ self.mixing)
        sums = self.read(output.detach()).sum((0, 1, 3)).repeat_interleave(32)
        got, says = self.module.read("v.bias.grad"), "in training, the gradient of v.bias"
        agree(got, sums, says=says, within=1e-4 * float(sums.max()))
