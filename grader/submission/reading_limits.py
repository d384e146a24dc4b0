"""What one text may cost its reader."""

SECONDS = 5  # of the processor
MEMORY_MIB = 512
ANSWER_BYTES = 32 * 2**20  # a notebook out of a zip, in base64, is the longest
WHOLE = b"\n"  # ends an answer: without it the reader died at it
