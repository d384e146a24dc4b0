"""What goes wrong with a sink, by name."""

import torch

from grader.judging import mistake

from .test_sink_softmax import test_far_sink, test_values


def beside(scores, sink):
    """The scores with the sink as the last of them."""
    return torch.cat([scores, torch.full_like(scores[..., :1], sink)], -1)


@mistake(of="sink_softmax", caught_by=test_values)
def no_sink(scores, sink):
    """The sink is left out, or what it took is shared out again: an ordinary softmax.

    Put exp(sink) into the sum, and leave the weights as they are: they add up to less than one.
    """
    return torch.softmax(scores, -1)


@mistake(of="sink_softmax", caught_by=test_values)
def sink_is_kept(scores, sink):
    """The weight of the sink is returned as well.

    Leave the last column out: no value belongs to it.
    """
    return torch.softmax(beside(scores, sink), -1)


@mistake(of="sink_softmax", caught_by=test_values)
def another_column_left_out(scores, sink):
    """The sink stands last, and the first column is left out.

    Leave out the column in which the sink stands: [..., :-1].
    """
    return torch.softmax(beside(scores, sink), -1)[..., 1:]


@mistake(of="sink_softmax", caught_by=test_values)
def sink_is_no_exponent(scores, sink):
    """The sink itself is added to the sum, not its exponential.

    The sink is a score as the others are: add exp(sink).
    """
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + sink)


@mistake(of="sink_softmax", caught_by=test_values)
def one_in_the_sum(scores, sink):
    """The sum has 1 more, whatever the sink is.

    exp(sink) is 1 only where the sink is 0: add exp(sink).
    """
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + 1)


@mistake(of="sink_softmax", caught_by=test_values)
def down_the_columns(scores, sink):
    """The sum runs over the queries, not over the keys.

    Take the softmax over the last axis: each query shares out its own attention.
    """
    return torch.softmax(beside(scores.mT, sink), -1)[..., :-1].mT


@mistake(of="sink_softmax", caught_by=test_values)
def sink_as_a_floor(scores, sink):
    """Scores below the sink are raised to it.

    The sink changes no score: it is one more beside them.
    """
    return torch.softmax(scores.clamp(min=sink), -1)


@mistake(of="sink_softmax", caught_by=test_values)
def taken_from_the_weights(scores, sink):
    """The share of the sink is taken from each weight.

    The sink belongs into the sum below the fraction.
    """
    return torch.softmax(scores, -1) - torch.softmax(beside(scores, sink), -1)[..., -1:]


@mistake(of="sink_softmax", caught_by=test_values)
def sink_with_its_sign_changed(scores, sink):
    """The sink stands in the sum with its sign changed.

    Add exp(sink), not exp(-sink).
    """
    return torch.softmax(beside(scores, -sink), -1)[..., :-1]


@mistake(of="sink_softmax", caught_by=test_far_sink)
def nothing_is_subtracted(scores, sink):
    """Nothing is subtracted before the exponential, so that it overflows.

    Subtract the largest of the scores and the sink first; or let torch.softmax do it.
    """
    powers, more = scores.exp(), scores.new_tensor(sink).exp()
    return powers / (powers.sum(-1, keepdim=True) + more)
