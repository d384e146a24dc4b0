"""What one text may cost its reader."""

READER_CPU_SECONDS = 5  # of the processor
READER_MEMORY_MIB = 512
MAX_REPLY_BYTES = 32 * 2**20  # a notebook out of a zip, in base64, is the longest
REPLY_END = b"\n"  # ends an answer: without it the reader died at it
