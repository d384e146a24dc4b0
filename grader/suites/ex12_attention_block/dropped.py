"""Reads the attention weights of a self-attention with dropout."""

import torch

from grader.judging import agree, expect

from .modules import gradients_agree, pair

DROPPED = 0.3
SHAPES = {"padding": "B11L", "heads": "HLL", "rows": "BHLL"}
PAIRS = 64  # fewer are not looked at; in a right answer all are alike once in 10**13 times
FAR = 6  # standard deviations; a right answer is as far away twice in a thousand million times


class OpenWeights:
    """Self-attention with dropout from whose output the attention weights can be read.

    Two heads of 32 numbers, and 32 tokens that are unit vectors, once for each head: projected to
    values of sizes of their own they put weight j into column j. `o` mixes all columns and is its
    own inverse, so that a dropped column of the output does not look like a dropped weight.
    """

    def __init__(self, student, draw, device, dropout, dtype, tokens=32, **options):
        self.share = dropout
        options = {"qk_norm": False, "dropout": dropout, "dtype": dtype} | options
        self.module, self.right = pair(student, draw, device, "SelfAttention", 64, 2, **options)
        self.mixing = torch.ones(1, 1, dtype=dtype, device=device)
        for _ in range(6):
            top, low = [self.mixing, self.mixing], [self.mixing, -self.mixing]
            self.mixing = torch.cat([torch.cat(top, 1), torch.cat(low, 1)])
        self.mixing = self.mixing / 8  # orthogonal
        state = {name: x * ("norm" in name) for name, x in self.right.state_dict().items()}
        self.sizes = draw.normal(64, dtype=dtype, scale=0.1) + 1.0  # which float32 does not hold
        state |= {"v.weight": self.sizes.diag(), "o.weight": self.mixing}
        for name in ("q.weight", "k.weight"):  # weights between 0.001 and 0.5, or so
            state[name] = draw.normal(64, 64, dtype=dtype, scale=0.6)
        self.module.load_state_dict(state, strict=False)
        self.right.load_state_dict(state)
        units = torch.eye(32, dtype=dtype, device=device)[:tokens]
        self.x = torch.cat([units, units], -1).repeat(4, 1, 1)  # (B, L, E)

    def read(self, output):
        """Return the weights (B, Lq, H, Lk) behind an output (B, L, E)."""
        weights = (output.to(self.mixing) @ self.mixing / self.sizes).unflatten(-1, (2, 32))
        return weights[..., : output.shape[1]]

    def evaluated(self, keep, says):
        """Fail if a weight is dropped in this mode; return the right weights."""
        output, expected = self.module(self.x, keep), self.right(self.x, keep)
        weights = self.read(torch.from_numpy(expected.exact))
        missing = (self.read(output).abs() < weights / 2) & (weights > 1e-6)
        if missing.any():  # dropped at random, or wrong in another way
            expect(torch.equal(output, self.module(self.x, keep)), f"weights are dropped {says}")
        agree(output, expected, says=f"output {says}")
        return weights

    def dropped(self, keep, weights):
        """Call the module in training; check that a share of `weights` is 0, and the rest grew."""
        output, share = self.module(self.x, keep), self.share
        kind, right = output.dtype, self.x.dtype
        expect(kind == right, f"in training output.dtype is {kind}, but should be {right}")
        got, there, grown = self.read(output), weights > 1e-6, weights / (1 - share)
        stays = there & (got > weights / 2)
        count, gone = int(there.sum()), int((there & ~stays).sum())
        expect(not float((got - weights).abs().max()) <= 1e-4,
               f"in training nothing changes, although dropout is {share}")  # fmt: skip
        expect(bool((there & (got.abs() < weights / 100)).any()),
               f"in training no weight becomes 0, although dropout is {share}")  # fmt: skip
        some = stays.flatten(2).any(-1, keepdim=True)  # of a query that lost all, the output is 0
        expect(int(((output == 0) & some).sum()) < count // 100,
               "in training numbers of the output are 0: the attention weights should be dropped, "
               "before they meet the values")  # fmt: skip
        factor = (got * stays).sum() / (weights * stays).sum()
        says = "in training, the factor of the weights that are not dropped"
        agree(factor, torch.tensor(1 / (1 - share)), says=says, within=1e-4)
        says = "in training, the weights (each 0, or divided by 1 - dropout)"
        exact = 1e-5 if weights.dtype == torch.float32 else 1e-10
        agree(got, torch.where(stays, grown, 0.0), says=says, within=exact)
        far = FAR * (count * share * (1 - share)) ** 0.5
        expect(abs(gone - count * share) <= far,
               f"{gone} of {count} weights are dropped, but dropout is {share}")  # fmt: skip
        far = FAR * float((weights**2).sum() * share / (1 - share)) ** 0.5
        total, wanted = float(got.sum()), float(weights.sum())
        expect(abs(total - wanted) <= far,
               f"the weights add up to {total:.6g}, but should stay near {wanted:.6g}")  # fmt: skip
        hit = there & ~stays
        for axis, name in enumerate(("text", "query", "head", "key")):
            alike = (hit | ~there) == (hit | ~there).narrow(axis, 0, 1)
            why = f"every {name} loses the same weights: draw for each weight by itself"
            expect(not bool(alike.all()), why)
        drawn_apart(hit.transpose(1, 2), there.transpose(1, 2))
        return output

    def gradient(self, draw, keep, weights):
        """Compare all gradients with those for the weights that were kept."""
        leaf = self.x.clone().requires_grad_()
        self.module.zero_grad()
        output = self.module(leaf, keep)
        stays = (self.read(output.detach()) > weights / 2).transpose(1, 2)  # (B, H, Lq, Lk)
        self.right.plain.drop = lambda given: torch.where(stays, given / (1 - self.share), 0.0)
        upstream = draw.normal(*output.shape, dtype=output.dtype)
        expected = self.right.gradients(leaf, keep=keep, upstream=upstream)
        gradients_agree(self.module, self.right, output, [leaf], expected, upstream=upstream)
        del self.right.plain.drop  # which the allowances need too


def drawn_apart(hit, there):
    """Fail if (i, j) and (j, i) of tables (B, H, L, L), or neighbours, are always dropped together.

    Two weights that are drawn apart are alike with a chance of 0.625 or less.
    """
    upper = torch.ones_like(there[0, 0]).triu(1)
    pairs = [("(i, j) and (j, i)", hit, hit.mT, there & there.mT & upper)]
    for name, lost, some in ("keys", hit, there), ("queries", hit.mT, there.mT):
        for start in 0, 1:
            first, second = (slice(start + i, lost.shape[-1] - 1 + i, 2) for i in (0, 1))
            both = some[..., first] & some[..., second]
            pairs.append((f"two neighbouring {name}", lost[..., first], lost[..., second], both))
    for names, one, other, both in pairs:
        apart = int(both.sum()) < PAIRS or bool((both & (one != other)).any())
        expect(apart, f"the weights of {names} are always dropped together: draw for each weight "
               "by itself")  # fmt: skip


def dropped_together(student, draw, device):
    """Check what is dropped, and all gradients, in calls where any two choices meet."""
    for call in draw.combined(
        strength=2,
        dropout=(DROPPED, 0.25, 0.5),
        tokens=(32, 8),
        keep=(None, *SHAPES),
        rope_base=(None, 100.0),
        qk_norm=(True, False),
        fused=(True, False),
        graph=(True, False),
    ):
        kind, fused, graph = (call.pop(x) for x in ("keep", "fused", "graph"))
        sizes = {"B": 4, "1": 1, "H": 2, "L": call["tokens"]}
        shape = [sizes[letter] for letter in SHAPES.get(kind, "")]
        keep = None if kind is None else draw.keep(*shape, share=0.8)
        opened = OpenWeights(student, draw, device, dtype=torch.float32, **call)
        opened.module.fused = fused
        opened.module.eval()
        weights = opened.evaluated(keep, "in evaluation")
        opened.module.train()
        if graph:
            opened.gradient(draw, keep, weights)
        with torch.set_grad_enabled(graph):
            opened.dropped(keep, weights)
