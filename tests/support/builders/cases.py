"""Tables of cases: a test runs once for each row, and the name of the row is its id."""

from typing import Any

import pytest


def cases(names: str, **rows: Any) -> pytest.MarkDecorator:
    """Give a test the arguments ``names`` (separated by spaces) from each row in turn.

    With one name a row is its value, with several a tuple of their values.
    """
    return pytest.mark.parametrize(names.replace(" ", ","), list(rows.values()), ids=list(rows))
