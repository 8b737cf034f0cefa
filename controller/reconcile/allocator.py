"""The allocator of the C library: it returns large blocks to the system when they are freed.

glibc raises the size from which it does so to that of the largest block that was freed, up to 32
MiB. After some hundred objects of 1.4 MB, which are read and dropped, the process keeps hundreds of
MB that nobody uses. The account of the memory counts them as used.
"""

import ctypes

# <malloc.h>: a number that is set is not raised.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 * 1024


def return_large_blocks() -> bool:
    """Let all freed blocks of 128 KiB and more be returned; False if the C library cannot."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Not glibc.
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES))
