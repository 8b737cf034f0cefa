"""The forms of ``-o``. Pure.

Commands build their options of them, also for completion and help, so this module imports no
parser.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.printing.columns import CustomColumns
    from cli.printing.jsonpath import Template


class Form(StrEnum):
    """The forms of ``-o``, as the user names them."""

    TABLE = "table"
    """Without -o."""
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"
    COLUMNS = "custom-columns"


WITH_VALUE = frozenset({Form.JSONPATH, Form.COLUMNS})
"""The forms that end with ``=`` and a value."""
OBJECT_FORMS = (Form.NAME, Form.JSON, Form.YAML, Form.JSONPATH, Form.COLUMNS)
"""The forms of a command whose output is objects of the cluster."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A form, and what it needs."""

    form: Form = Form.TABLE
    template: "Template | None" = None
    columns: "CustomColumns | None" = None

    @property
    def is_table(self) -> bool:
        """Return whether the command prints its table."""
        return self.form in {Form.TABLE, Form.WIDE}


def name_form(form: Form) -> str:
    """Name a form as a user writes it."""
    return f"{form}=..." if form in WITH_VALUE else str(form)
