"""What goes wrong when a mistake is named, by name."""

from grader.judging import mistake

from .test_bug_hunt import test_mended, test_named

RIGHT = "window_one_too_wide"


@mistake(of="mistake", caught_by=test_named)
def another_of_the_list():
    """`mistake` returns another name of the list.

    Ask of every name what the failing check would see, and take the one that explains it.
    """
    return "window_centred"


@mistake(of="mistake", caught_by=test_named)
def several_names():
    """`mistake` returns several names in one string.

    One mistake was hidden: return the one name that explains what the failing check saw.
    """
    return f"{RIGHT}, window_centred"


@mistake(of="mistake", caught_by=test_named)
def function_named():
    """`mistake` returns the name of the function that is wrong.

    Return the name of what is wrong in it, as the head of the file has it.
    """
    return "sliding_window_mask"


@mistake(of="mistake", caught_by=test_named)
def check_named():
    """`mistake` returns the name of the check that fails.

    Return the name of what is wrong, as the head of the file has it.
    """
    return "test_sliding_window_mask"


@mistake(of="mistake", caught_by=test_named)
def sentence_returned():
    """`mistake` returns the sentence about the mistake.

    Return its name, the word above the sentence.
    """
    return "The window is one key too wide."


@mistake(of="mistake", caught_by=test_named)
def words_for_underscores():
    """`mistake` returns the name with spaces in it.

    Return it letter for letter, with its underscores.
    """
    return RIGHT.replace("_", " ")


@mistake(of="mistake", caught_by=test_named)
def name_with_its_file():
    """`mistake` returns the name with the exercise in front of it.

    Return the name alone.
    """
    return f"ex05_causal_mask.{RIGHT}"


@mistake(of="mistake", caught_by=test_named)
def no_string():
    """`mistake` returns a list of names.

    There is one mistake: return its name as a string.
    """
    return [RIGHT]


@mistake(of="mistake", caught_by=test_named)
def printed_instead_of_returned():
    """`mistake` prints the name and returns nothing.

    Return it.
    """


@mistake(of="mistake", caught_by=test_named, null=True)
def nothing_named():
    """`mistake` returns an empty string.

    Return the name of the mistake that you found.
    """
    return ""


@mistake(of="drill", caught_by=test_mended)
def exercise_without_a_number():
    """`drill` returns the exercise without its number.

    Leave `drill` as `make drill` wrote it.
    """
    return "ex05_causal_mask"


@mistake(of="drill", caught_by=test_mended)
def other_exercise():
    """`drill` returns a drill of another exercise than the one that is in the file.

    Leave `drill` as `make drill` wrote it.
    """
    return "ex01_softmax 1"


@mistake(of="drill", caught_by=test_named)
def other_number():
    """`drill` returns another number than the one that was drawn, in which another mistake hides.

    Leave `drill` as `make drill` wrote it.
    """
    return "ex05_causal_mask 7"


@mistake(of="drill", caught_by=test_mended, null=True)
def no_drill():
    """`drill` returns an empty string.

    Leave `drill` as `make drill` wrote it.
    """
    return ""
