"""Wrong answers to `RMSNorm`."""

import torch

from grader.judging import mistake
from reference.blocks import (
    PlainRMSNorm,
)

from ..test_attention_block import (
    test_norm,
    test_norm_manners,
    test_norm_precision,
)
from .shared import Norm, at_least_float32


@mistake(of="RMSNorm", caught_by=test_norm)
class MeanSubtracted(Norm):
    """The mean is subtracted from the row before it is divided: that is LayerNorm.

    RMSNorm takes one statistic only, the mean of the squares of x as it came.
    """

    def unit_of(self, x):
        return super().unit_of(x - x.mean(-1, keepdim=True))


@mistake(of="RMSNorm", caught_by=test_norm)
class EpsOutsideTheRoot(Norm):
    """eps is added to the root instead of to the mean square.

    Add it first: torch.sqrt(x.square().mean(-1, keepdim=True) + eps).
    """

    def unit_of(self, x):
        return x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps)


@mistake(of="RMSNorm", caught_by=test_norm)
class NoEps(Norm):
    """eps is left out: a row of zeros is divided by zero.

    Add it to the mean square, under the root.
    """

    def unit_of(self, x):
        return x / x.square().mean(-1, keepdim=True).sqrt()


@mistake(of="RMSNorm", caught_by=test_norm)
class WeightIgnored(Norm):
    """The weight plays no part.

    Multiply the quotient by self.weight.
    """

    def scaled(self, x):
        return x


@mistake(of="RMSNorm", caught_by=test_norm)
class EpsOfZeroReplaced(Norm):
    """An eps of 0 is taken for none given, and the default stands in its place.

    Use self.eps as it is: `eps or 1e-6` is 1e-6 for 0.
    """

    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, eps or 1e-6)


@mistake(of="RMSNorm", caught_by=test_norm)
class FirstThousandSquares(Norm):
    """The mean square is taken of the first 1024 columns at most.

    Take the mean of all columns: wide.square().mean(-1, keepdim=True).
    """

    def unit_of(self, x):
        return x / (x[..., :1024].square().mean(-1, keepdim=True) + self.eps).sqrt()


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class NormInPlace(Norm):
    """x itself is divided, so that the caller's numbers are lost.

    Write x / rms, without `/=` and div_: it makes a new tensor.
    """

    def forward(self, x):
        answer = super().forward(x)
        if not x.requires_grad and x.is_contiguous():
            x.copy_(self.unit(x))
        return answer


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class HalfStatistics(PlainRMSNorm):
    """The mean square is computed in half precision, where squares overflow or vanish.

    Convert x to float32 before the squares are taken, and the quotient back at the end.
    """


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class Float64Lowered(Norm):
    """x.float() lowers float64 to float32, and half of the digits are gone.

    Raise half precision only: x.to(torch.promote_types(x.dtype, torch.float32)).
    """

    def unit_of(self, x):
        return super().unit_of(x.float())


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class WidthNotCompared(Norm):
    """An x of another width is broadcast against the weight, or refused by PyTorch in its own way.

    Compare x.shape[-1] with dim first, and raise a ValueError with both numbers.
    """

    def forward(self, x):
        return self.scaled(self.unit(x))


@mistake(of="RMSNorm", caught_by=test_norm, null=True)
class NormOfZeros(Norm):
    """The norm answers with zeros.

    Nothing is computed yet: take the mean square, its root, and divide.
    """

    def unit_of(self, x):
        return 0 * x


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class DividedInPlaceWithoutGradients(Norm):
    """Where no gradients are wanted, x itself is divided.

    Make a new tensor, with gradients or without: x * scale, not x.mul_(scale).
    """

    def forward(self, x):
        output = super().forward(x)
        if not torch.is_grad_enabled():
            x.copy_(output)
        return output


@mistake(of="RMSNorm", caught_by=test_norm_manners)
class WidthComparedWhereThereAreRows(Norm):
    """The width of an x that has no rows is not compared.

    Compare x.shape[-1] with dim before you ask for anything else.
    """

    def forward(self, x):
        return super().forward(x) if x.numel() else self.scaled(self.unit(x))


@mistake(of="RMSNorm", caught_by=test_norm_precision)
class LargerEpsInHalfPrecision(Norm):
    """In half precision an eps of 0 becomes the default.

    Use eps as it is: in float32 the mean square of half precision does not vanish.
    """

    def unit(self, x):
        eps = max(self.eps, 1e-6) if x.dtype.itemsize == 2 else self.eps
        (wide,) = at_least_float32(x)
        return (wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
