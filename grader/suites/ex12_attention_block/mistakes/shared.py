"""Steps that wrong answers to several tasks share."""

import torch
import torch.nn.functional as F

from reference.blocks import (
    PlainCrossAttention,
    PlainRMSNorm,
    PlainSelfAttention,
    plain_angles,
    plain_turn,
)


def at_least_float32(*xs):
    """Half precision in float32, the rest as it is."""
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in xs]


class Norm(PlainRMSNorm):
    """The right norm, half precision in float32; a mistake overrides `unit_of`."""

    def unit(self, x):
        return self.unit_of(*at_least_float32(x)).to(x.dtype)

    def unit_of(self, x):
        return super().unit(x)


class Self(PlainSelfAttention):
    """The right self-attention, half precision in float32."""

    norm = Norm

    def project(self, x):
        if not self.fused:
            return super().project(x)
        return F.linear(x, *self.joined((self.q, self.k, self.v))).chunk(3, -1)

    def turn(self, x):
        return plain_turn(*at_least_float32(x), self.angles(x)).to(x.dtype)

    def angles(self, x):
        return plain_angles(x, self.rope_base)

    def attend(self, q, k, v, keep):
        return super().attend(*at_least_float32(q, k, v), keep).to(q.dtype)

    def joined(self, layers):
        """Weights and biases of several layers below each other."""
        return torch.cat([x.weight for x in layers]), torch.cat([x.bias for x in layers])


class Cross(PlainCrossAttention):
    """The right cross-attention, half precision in float32."""

    norm = Norm

    def attend(self, q, k, v, keep):
        return super().attend(*at_least_float32(q, k, v), keep).to(q.dtype)
