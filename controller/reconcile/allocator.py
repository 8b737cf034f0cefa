"""Lets the allocator of the C library return large blocks to the system when they are freed.

glibc returns only blocks above a threshold, and raises the threshold to the size of the largest
freed block, up to 32 MiB. After some hundred objects of 1.4 MB have been read and dropped, the
process would keep hundreds of MB of unused memory, which the memory ledger counts as used.
"""

import ctypes

# <malloc.h>: glibc does not raise a threshold that the program has set.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 * 1024


def return_large_blocks() -> bool:
    """Return freed blocks of 128 KiB and more to the system; False if the C library cannot."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Not glibc.
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
