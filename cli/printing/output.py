"""The value of ``-o``, and objects in its format. Pure.

A command gets an ``OutputFormat`` from ``cli.printing.options``. It prints its own table if
``is_table``, else the result of ``render``, with ``cli.terminal.print_document``.
"""

from collections.abc import Collection, Sequence

from cli.exitcodes import CliError, ExitCode
from cli.printing.columns import Aligner, CustomColumns, parse_columns
from cli.printing.forms import WITH_VALUE, Form, OutputFormat, name_form
from cli.printing.gotext import render_json
from cli.printing.jsonpath import Template
from cli.printing.jsonpath_parser import TemplateError
from framework.kube.resources import Object

_INDENT = 4


def parse_output(text: str, forms: Collection[Form]) -> OutputFormat:
    """Parse the value of ``-o``.

    Args:
        text: as the user wrote it.
        forms: those of the command.

    Raises:
        TemplateError: another form, or its template cannot be read.
    """
    name, equals, value = text.partition("=")
    known = [name_form(form) for form in Form if form in forms]
    if name not in {str(form) for form in forms}:
        raise TemplateError(f"{text[:80]!r} is not a format; write one of {', '.join(known)}")
    form = Form(name)
    if (form in WITH_VALUE) != bool(value) or (equals and form not in WITH_VALUE):
        raise TemplateError(f"{text[:80]!r} is not complete; write {name_form(form)}")
    return OutputFormat(
        form,
        Template(value) if form is Form.JSONPATH else None,
        parse_columns(value) if form is Form.COLUMNS else None,
    )


def format_name(body: Object) -> str:
    """Name an object as ``kubectl get -o name`` does: kind.group/name."""
    group, slash, _ = str(body.get("apiVersion", "")).partition("/")
    kind = str(body.get("kind", "")).lower()
    name = (body.get("metadata") or {}).get("name", "")
    return f"{kind}.{group}/{name}" if slash else f"{kind}/{name}"


def hide_managed_fields(body: Object) -> Object:
    """Remove ``metadata.managedFields`` from an object, as kubectl does."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return body
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**body, "metadata": kept}


class Printer:
    """Renders objects in one format; of a watch, one object after the other."""

    def __init__(self, output: OutputFormat, *, has_header: bool = True) -> None:
        """Begin; the header of columns is rendered with the first objects."""
        self._output = output
        self._has_header = has_header
        self._aligner = Aligner()

    def render(self, bodies: Sequence[Object], *, is_list: bool) -> str:
        """Render objects.

        Args:
            bodies: with kind and apiVersion.
            is_list: as a List; else there is one object.

        Raises:
            CliError: the template does not fit the objects.
        """
        shown = [hide_managed_fields(body) for body in bodies]
        form = self._output.form
        if form is Form.NAME:
            return "".join(f"{format_name(body)}\n" for body in shown)
        try:
            if self._output.columns is not None:
                return self._render_columns(self._output.columns, shown)
            whole = _build_list(shown) if is_list else shown[0]
            if self._output.template is not None:
                return self._output.template.render(whole)
        except TemplateError as e:
            raise CliError(ExitCode.USAGE, f"-o {form}: {e}") from e
        if form is Form.JSON:
            return f"{render_json(whole, _INDENT)}\n"
        from cli.printing.yamltext import render_yaml

        return render_yaml([whole])

    def _render_columns(self, columns: CustomColumns, bodies: Sequence[Object]) -> str:
        rows = [list(columns.headers)] if self._has_header else []
        self._has_header = False
        rows += [columns.build_row(body) for body in bodies]
        return "".join(f"{line}\n" for line in self._aligner.align(rows))


def _build_list(bodies: Sequence[Object]) -> Object:
    metadata = {"resourceVersion": ""}
    return {"apiVersion": "v1", "items": list(bodies), "kind": "List", "metadata": metadata}
