"""Runs ``framework convert``: a file with other kinds in, Frameworks and their objects out."""

from cli.authoring.commands import print_objects
from cli.exitcodes import CliError, ExitCode
from cli.files.documents import name_source, read_documents
from cli.files.kinds import expand
from cli.terminal import print_error
from framework.kinds.catalog import describe_kinds, find_compile, is_scaler
from framework.kube.resources import Object


def convert_file(file: str, output: str | None) -> ExitCode:
    """Write a file's objects, with Frameworks in place of the other kinds.

    Raises:
        CliError: the file is faulty or has none of these kinds, or the output cannot be written.
    """
    problems: list[str] = []
    warnings: list[str] = []
    scalers: list[str] = []
    objects: list[Object] = []
    converted = 0
    for place, document in read_documents([file], problems):
        body = document.value
        if not isinstance(body, dict):
            problems.append(
                f"{place.locate('')}: must be an object with apiVersion, kind and metadata"
            )
            continue
        converted += find_compile(body) is not None
        if is_scaler(body):
            scalers.append(
                f"{place.locate('kind')}: kind: {body['kind']} stays as it is: it scales a "
                'TrainingJob, not a Framework (docs/trainingjob.md, "ScaleIn and ScaleOut")'
            )
        objects += [each.value for _, each in expand(place, document, problems, warnings)]
    if not converted and not problems:
        problems += [f"{scaler}; apply it as it is with kubectl" for scaler in scalers]
    if not converted and not problems:
        problems.append(
            f"{name_source(file)}: nothing to convert in it: give a file with an object of one of "
            f"these kinds: {describe_kinds()}"
        )
    if problems:
        raise CliError(ExitCode.USAGE, *problems)
    for warning in (*scalers, *warnings):
        print_error(f"warning: {warning}")
    print_objects(objects, output, f"{converted} converted")
    return ExitCode.SUCCEEDED
