"""Says in words which properties of a right answer a wrong one lacks."""

from collections.abc import Iterator, Sequence

from grader.core.diagnosis_records import Fact, SmallExample
from grader.core.translation import Words

# Each is true as it stands: it says what a call gave, and where it helps what should have come.
FACT_SENTENCES = {
    # read from the wrong numbers
    "all_zero": "All numbers are 0.",
    "factor": "Every number is {factor} times what it should be.",
    "offset": "Every number is what it should be plus {offset}.",
    "transposed": "The numbers are right, but two axes are exchanged.",
    "other_places": "The numbers are right, but they stand in other places.",
    "float32_digits": "The relative error is {error}: somewhere float64 is computed in float32.",
    "rows_too_small": "All numbers of a row are too small by one factor, here by up to {share} of "
    "themselves: something is added to the sum by which they are divided.",
    "all_inverted": "True and False are exchanged everywhere.",
    "more_true": "All that should be True is True, and so are {count} others.",
    "fewer_true": "All that should be False is False, and so are {count} others.",
    # weights
    "negative_weights": "There are negative weights, the least {least}.",
    "row_sums": "In an example the weights of a row sum to {sum}, not to 1.",
    "columns_sum": "In an example the weights of a column sum to 1; those of a row sum to {sum}.",
    "table_sum": "In an example the weights of all rows together sum to 1; those of one row sum to "
    "{sum}.",
    "shift": "Adding 1 to every score changes the weights, by up to {change}. It should not.",
    "order": "A smaller score has the larger weight: {low} against {high}.",
    "other_rows": "The weights of a row change with the scores of another row, by up to {change}.",
    "large_scores": "Scores near {score} give NaN or infinity. With the maximum of each row "
    "subtracted first, the weights are the same and nothing overflows.",
    "rows_apart": "A row of small scores is right alone, and wrong beside a row whose scores are "
    "{size} larger.",
    "float16": "Scores up to {score} are right in float32, and give NaN or infinity in float16.",
    "float16_products": "Queries and keys of {number} are right in float32, and give NaN or "
    "infinity in float16.",
    "axis_ignored": "Along the first axis and along the last the answer is the same.",
    # masks
    "mask_inverted": "In a row with both, only keys whose `keep` is False have weight; it should "
    "be only those whose `keep` is True.",
    "mask_ignored": "The weights are the same with a mask and without.",
    "hidden_weight": "A hidden key has weight {weight}; it should have 0.",
    "masked_sum": "In an example with a mask the weights of a row sum to {sum}, not to 1.",
    "hidden_score": "A hidden key changes the other weights when its score is {score}.",
    "empty_row_not_finite": "A row whose keys are all hidden gives NaN or infinity, not 0.",
    "empty_row_sum": "In an example the weights of a row whose keys are all hidden sum to {sum}, "
    "not to 0.",
    # attention
    "mixture": "The output is not the weights times the values: it differs by up to {change}.",
    "ignores_q": "The output does not change with the queries.",
    "ignores_k": "The output does not change with the keys.",
    "ignores_v": "The output does not change with the values.",
    "taken_as_kqv": "The answer is right for `q` and `k` exchanged.",
    "taken_as_qvk": "The answer is right for `k` and `v` exchanged.",
    "taken_as_vkq": "The answer is right for `q` and `v` exchanged.",
    "other_batch_is_returned": "Batch entry {place} has the output of batch entry {other}.",
    "other_head_is_returned": "Head {place} has the output of head {other}.",
    "other_row_is_returned": "Query {place} has the output of query {other}.",
    "output_transposed": "The output is right, but rows and columns are exchanged.",
    "other_batch": "The output of a sequence changes with the other sequences in the batch, by up "
    "to {change}.",
    "other_heads": "The output of a head changes with the other heads, by up to {change}.",
    "one_head_only": "It is right for one head, and not for {heads}.",
    "one_batch_only": "It is right for a batch of one, and not for a batch of {batch}.",
    "equal_lengths_only": "It is right for as many queries as keys, and not for {queries} queries "
    "and {keys} keys.",
    "equal_widths_only": "The output is right for values as wide as the keys, and not for keys of "
    "width {keys} and values of width {values}.",
    "key_order": "Other order of the keys, together with their values, changes the output, by up "
    "to {change}. It should not.",
    "later_key_seen": "The output of query {query} changes with key {key}, which comes later.",
    "forbidden_key_seen": "The output of query {query} changes with key {key}, which it should not "
    "see.",
    "later_token_seen": "The output of token {row} changes with token {token}, which comes later.",
    "forbidden_token_seen": "The output of token {row} changes with token {token}, which it should "
    "not see.",
    "token_missed": "The output of token {row} does not change with token {token}, which it should "
    "see.",
    "own_key_missed": "The output of query {query} does not change with key {key}, its own.",
    "key_missed": "The output of query {query} does not change with key {key}, which it should "
    "see.",
    "scale_ignored": "The output is the same with a given `scale` and without.",
    # modules
    "ignores_w_q": "The output does not change with the weights of `w_q`.",
    "ignores_w_k": "The output does not change with the weights of `w_k`.",
    "ignores_w_v": "The output does not change with the weights of `w_v`.",
    "ignores_w_o": "The output does not change with the weights of `w_o`.",
    # caches, and texts that are continued
    "chunks": "A text in chunks of {first} and {then} tokens has other outputs than in one call, "
    "first at token {token}; they differ by up to {change}.",
    "past_count": "After {tokens} tokens the past that is returned holds {count}.",
    "past_changed": "Token {token} of the past that is returned is not as it was given.",
    "cache_length": "After {tokens} tokens `length` is {length}.",
    "cache_count": "After {tokens} tokens append returns {count}.",
    "cache_exchanged": "Keys and values that come back are exchanged.",
    "values_as_keys": "The values come back in the place of the keys.",
    "keys_as_values": "The keys come back in the place of the values.",
    "sequence_not_stored": "Sequence 0 comes back as it was appended, and sequence {sequence} does "
    "not.",
    "earlier_token_changed": "After append number {append}, token {token} is not what it was.",
    "new_token_missed": "Append number {append} does not bring back token {token} as it was "
    "appended.",
    "length_after_reset": "After `reset` and one token `length` is {length}.",
    "wrong_after_reset": "After `reset` and one token, append returns something else than that "
    "token.",
    "other_cache": "What a cache holds changes when another cache is appended to.",
    "full_refused": "With room for {room} tokens, {room} tokens are refused.",
    "overflow_taken": "With room for {room} tokens, {tokens} tokens are taken.",
    "other_alone": "Made first, before any other call, this call gives another answer: something "
    "is kept between calls.",
    "second_call": "The same inputs give another answer in a later call: it changes by up to "
    "{change}.",
}


def report_facts(facts: Sequence[Fact], words: Words) -> Iterator[str]:
    """Yield a sentence for each fact."""
    for fact in facts:
        values = {name: _write_fact_number(x) for name, x in fact.values.items()}
        yield words(FACT_SENTENCES[fact.key], **values)


def report_small_example(example: SmallExample, words: Words) -> str:
    """Say which small call still goes wrong, with its numbers."""
    inputs = words(", ").join(f"{name} = {value}" for name, value in example.inputs)
    told = "By hand, with {inputs}: {name} is {got}, but should be {right}."
    return words(told, inputs=inputs, name=example.name, got=example.got, right=example.right)


def _write_fact_number(x: float) -> str:
    """Write a whole number as it is; others with four digits, or with more if they would look like
    0 or 1."""
    if x == round(x) and abs(x) < 1e9:
        return str(round(x))
    short = f"{x:.4g}"
    return f"{x:.8g}" if float(short) in (0, 1) else short
