"""Tables of cases: a test runs once for each row, and the name of the row is its id."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(
    names: str, table: Mapping[str, Any] | None = None, /, **rows: Any
) -> pytest.MarkDecorator:
    """Give a test the arguments ``names`` (separated by spaces) from each row in turn.

    With one name, a row is its value; with several names, a tuple of their values. Use a table if
    names of rows are no identifiers.
    """
    rows = {**(table or {}), **rows}
    return pytest.mark.parametrize(names.replace(" ", ","), list(rows.values()), ids=list(rows))
