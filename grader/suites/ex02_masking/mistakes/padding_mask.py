"""Wrong answers to `padding_mask`."""

import torch

from grader.judging import mistake
from grader.judging.one_place import written_over

from ..steps import (
    counted,
    padding,
    unchanged,
)
from ..test_masking import (
    test_padding_mask,
)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def positions_in_the_dtype_of_the_lengths(lengths, max_len):
    """The positions have the dtype of the lengths, and int8 has no position beyond 127.

    Leave torch.arange as it comes, in int64; the comparison takes two dtypes.
    """

    def count(lengths, max_len):
        return counted(lengths, max_len).to(lengths.dtype)

    return padding(lengths, max_len, count=count)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_too_many(lengths, max_len):
    """Each sentence keeps one key too many: position n is compared with <=.

    The keys of a sentence of length n are 0 to n - 1, so compare with <.
    """
    return padding(lengths, max_len, seen=torch.le)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_kept(lengths, max_len):
    """The padding is kept and the sentence is hidden.

    True means may attend: positions < lengths.
    """
    return padding(lengths, max_len, seen=torch.ge)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_on_the_left(lengths, max_len):
    """The last keys of each sentence are kept instead of the first.

    Padding follows the sentence: keep the positions below its length.
    """

    def count(lengths, max_len):
        return counted(lengths, max_len).flip(0)

    return padding(lengths, max_len, count=count)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_of_queries(lengths, max_len):
    """The mask is (B, 1, L, 1): it hides queries instead of keys.

    Keys are the last axis of the scores, so the L stands last.
    """
    return padding(lengths, max_len, spread=lambda keep: keep[:, None, :, None])


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_without_axes(lengths, max_len):
    """The mask is (B, L), and will be lined up with queries and keys, not with sentences.

    Put in the axes for heads and queries: keep[:, None, None, :].
    """
    return padding(lengths, max_len, spread=unchanged)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def longest_instead_of_max_len(lengths, max_len):
    """The mask is as long as the longest sentence, whatever max_len says.

    Number the keys with torch.arange(max_len).
    """
    return padding(lengths, int(lengths.max()) if len(lengths) else max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_length_for_all(lengths, max_len):
    """Every sentence is given the length of the longest one.

    Compare the positions with lengths[:, None, None, None]: every row has its own.
    """
    longest = lengths.amax(0, keepdim=True).expand_as(lengths) if len(lengths) else lengths
    return padding(longest, max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_at_least(lengths, max_len):
    """A sentence of length 0 keeps its first key, to save its rows from being empty.

    Length 0 keeps nothing. Rows that keep nothing are the matter of masked_softmax.
    """
    return padding(lengths.clamp(min=1), max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_too_few(lengths, max_len):
    """Each sentence loses its last key: positions are counted from 1, or compared with one less
    than the length.

    The keys of a sentence of length n are 0 to n - 1, so compare with n: positions < lengths.
    """

    def count(lengths, max_len):
        return counted(lengths, max_len) + 1

    return padding(lengths, max_len, count=count)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def slice_ends_before_the_last_key(lengths, max_len):
    """A slice ends at n - 1: one key too few, and for n = 0 all but one of them, since -1 counts
    from the end.

    A slice up to n holds the keys 0 to n - 1: keep[b, :n] = True.
    """
    ends = lengths - 1
    return padding(torch.where(ends < 0, max_len + ends, ends), max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def last_key_only(lengths, max_len):
    """Of each sentence one key alone is kept, the one at its length.

    Keep all positions below the length: compare with <.
    """
    return padding(lengths, max_len, seen=torch.eq)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def shortest_for_all(lengths, max_len):
    """Every sentence is given the length of the shortest one.

    Compare the positions with lengths[:, None, None, None]: every row has its own.
    """
    shortest = lengths.amin(0, keepdim=True).expand_as(lengths) if len(lengths) else lengths
    return padding(shortest, max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def first_length_for_all(lengths, max_len):
    """Every sentence is given the length of the first one.

    Compare the positions with lengths[:, None, None, None]: every row has its own.
    """
    return padding(lengths[:1].expand_as(lengths), max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def one_key_too_many_in_the_mask(lengths, max_len):
    """The mask has max_len + 1 keys.

    Number the keys 0 to max_len - 1: torch.arange(max_len).
    """
    return padding(lengths, max_len + 1)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_without_an_axis(lengths, max_len):
    """The mask is (B, 1, L): one axis is missing, that of the heads or that of the queries.

    Put in both axes: keep[:, None, None, :].
    """
    return padding(lengths, max_len, spread=lambda keep: keep[:, None])


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_along_the_heads(lengths, max_len):
    """The mask is (B, L, 1, 1): the keys stand where the heads belong.

    Keys are the last axis of the scores, so the L stands last.
    """
    return padding(lengths, max_len, spread=lambda keep: keep[:, :, None, None])


@mistake(of="padding_mask", caught_by=test_padding_mask)
def sentences_behind_the_heads(lengths, max_len):
    """The mask is (1, 1, B, L): the sentences stand where the queries belong.

    Put the new axes between sentences and keys: keep[:, None, None, :].
    """
    return padding(lengths, max_len, spread=lambda keep: keep[None, None])


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_for_every_query(lengths, max_len):
    """The mask is (B, 1, L, L): it is repeated for as many queries as keys.

    Leave the axis of the queries at 1; it broadcasts over any number of them.
    """
    return padding(lengths, max_len).expand(-1, -1, max_len, -1)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_of_numbers(lengths, max_len):
    """The answer is a mask of the numbers 0 and 1, not of booleans.

    A comparison is boolean by itself: return it as it comes.
    """
    return padding(lengths, max_len).int()


@mistake(of="padding_mask", caught_by=test_padding_mask)
def lengths_less_one_in_place(lengths, max_len):
    """1 is subtracted from the caller's own lengths, by -= or an operator with a trailing
    underscore.

    Write lengths - 1: it makes a new tensor. Here the comparison with < needs none.
    """
    keep = padding(lengths, max_len)
    lengths -= 1
    return keep


@mistake(of="padding_mask", caught_by=test_padding_mask)
def lengths_raised_in_place(lengths, max_len):
    """The caller's own lengths are changed: 0 becomes 1, by an operator with a trailing
    underscore.

    Leave the lengths as they are: a sentence of length 0 keeps nothing.
    """
    lengths.clamp_(min=1)
    return padding(lengths, max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def positions_on_the_cpu(lengths, max_len):
    """The positions are made on the CPU, wherever the lengths are.

    Hand device=lengths.device to torch.arange.
    """

    def count(lengths, max_len):
        return torch.arange(max_len)

    return padding(lengths, max_len, count=count)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def padding_in_one_buffer(lengths, max_len, places={}):  # noqa: B006 (the mistake)
    """One buffer is kept for each shape, so a later call writes over an earlier answer.

    Make a new tensor in every call.
    """
    return written_over(places, padding(lengths, max_len))


@mistake(of="padding_mask", caught_by=test_padding_mask, null=True)
def padding_mask_of_ones(lengths, max_len):
    """Every key is kept, padding too.

    Compare the position of each key with the length of the sentence.
    """
    return padding(torch.full_like(lengths, max_len, dtype=torch.int64), max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def last_place_in_bytes(lengths, max_len):
    """Places are compared with lengths - 1, which for a length of 0 in uint8 is 255.

    Compare places with the lengths themselves: places < lengths.
    """
    return padding(lengths, max_len, seen=lambda places, ends: places <= ends - 1)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def lengths_in_int16(lengths, max_len):
    """The lengths are counted in int16, which ends at 32,767.

    Leave the lengths in their dtype; the comparison takes two dtypes.
    """
    return padding(lengths.short(), max_len)


@mistake(of="padding_mask", caught_by=test_padding_mask)
def compared_in_half_precision(lengths, max_len):
    """Positions and lengths are compared in float16, which does not hold every number above 2048.

    Compare whole numbers: torch.arange(max_len) < lengths.
    """

    def count(lengths, max_len):
        return counted(lengths, max_len).half()

    return padding(lengths.half(), max_len, count=count)
