"""The logger ``peers``, and warnings that are logged once."""

import logging
from typing import Dict

log = logging.getLogger("peers")


def warn_once(text: str) -> None:
    """Log a warning that was not logged before."""
    if text not in _warned:
        _warned[text] = None
        log.warning(text)


_warned: Dict[str, None] = {}
