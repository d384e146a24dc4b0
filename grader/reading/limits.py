"""What one text may cost its reader."""

SECONDS = 5  # of the processor
MEMORY_MIB = 512
ANSWER_BYTES = 16 * 2**20
WHOLE = b"\n"  # ends an answer: without it the reader died at it
