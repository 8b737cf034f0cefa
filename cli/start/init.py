"""``framework init``: writes a gang that trains, into one file that needs no image build."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cli.authoring.containerfields import is_reference
from cli.exitcodes import CliError, ExitCode
from cli.invocation import build_command
from cli.printing.yamltext import render_yaml
from cli.start.gangfile import ACCOUNT_PREFIX, GangOptions, count_workers, render_gang
from cli.start.stacks import PLAIN, STACKS, Stack
from cli.terminal import print_error, print_line
from framework.api import constants
from framework.api.naming import is_framework_name
from framework.kinds.agent_objects import build_rights
from framework.kube.resources import Object

# In a wheel the examples are beside this module (pyproject.toml); in a checkout in their folder.
_PACKAGED = Path(__file__).with_name("templates")
_CHECKOUT = Path(__file__).parents[2] / "examples"
_SECRET_MODE = 0o600
_NAME_RULE = (
    "is not a valid Framework name: use 1 to 63 characters of a-z, 0-9 and '-', beginning and "
    "ending with a letter or digit"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """Options of ``framework init``."""

    gang: GangOptions
    stack: str | None = None
    """None for plain Python."""
    output: str = "."
    """Directory of the files."""
    force: bool = False
    """Whether files that exist are written over."""


def write_gang(options: InitOptions) -> ExitCode:
    """Run ``framework init``.

    Raises:
        CliError: the name is not valid, a file exists, or one cannot be written.
    """
    gang = options.gang
    if not is_framework_name(gang.name):
        raise CliError(ExitCode.USAGE, f"NAME: {gang.name!r} {_NAME_RULE}")
    if gang.image is not None and not is_reference(gang.image):
        raise CliError(
            ExitCode.USAGE,
            f"--image: {gang.image!r} is not an image; write it in lower-case letters, as "
            "registry.example/team/image:tag",
        )
    if gang.gpus and options.stack is None:
        raise CliError(
            ExitCode.USAGE, f"--gpus: plain Python uses none; add --stack {'|'.join(STACKS)}"
        )
    if not options.output.isprintable():
        # It is in a comment of the file, which would end with the line.
        raise CliError(
            ExitCode.USAGE,
            "--output: has a character that cannot be printed; name another directory",
        )
    stack = STACKS[options.stack] if options.stack is not None else PLAIN
    path = Path(options.output) / f"{gang.name}.yaml"
    secret = path.with_name(f"{gang.name}-ssh.yaml") if stack.secret else None
    paths = [path, *([secret] if secret else [])]
    _check_free(paths, options)
    text = build_gang_file(stack, gang, paths)
    _write(path, text, options)
    if secret is not None:
        _write(secret, build_secret_file(gang.name), options)
    _explain(stack, gang, paths, count_workers(text))
    return ExitCode.SUCCEEDED


def build_gang_file(stack: Stack, gang: GangOptions, paths: Sequence[Path]) -> str:
    """Build the file of a gang: the objects of an example, and the rights of its agents."""
    example = read_example(stack)
    here, cluster = _build_calls(gang, paths, gang.workers or count_workers(example))
    header = [
        f"{stack.title}. Written by `framework init`.",
        "",
        f"  {here}",
        f"  {cluster}",
        "",
        f"Needs {stack.needs}:",
        "on the PATH of this machine, and on a cluster in the image.",
        "",
        "The script is in the ConfigMap, so no image has to be built: change it here. For several",
        "files, build an image that has them, and remove the ConfigMap and its volume.",
    ]
    text = render_gang(example, stack, gang, header)
    rights = render_yaml(_build_agents_rights(text))
    return f"{text}---\n# The agents may read the roster of this gang, and nothing else.\n{rights}"


def read_example(stack: Stack) -> str:
    """Read the example of a stack."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    return (folder / stack.example).read_text(encoding="utf-8")


def _build_agents_rights(text: str) -> list[Object]:
    documents = [document for document in yaml.safe_load_all(text) if document]
    (framework,) = [d for d in documents if d["kind"] == constants.FRAMEWORK_KIND]
    account = ACCOUNT_PREFIX + framework["metadata"]["name"]
    drains = any("drain" in role for role in framework["spec"]["taskRoles"])
    return list(build_rights(framework, [account], reports=drains))


def build_secret_file(name: str) -> str:
    """Build the Secret with a new ssh key pair, by which the Pods of the gang reach one another."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-ssh"},
        "stringData": {"id_ed25519": private.decode(), "id_ed25519.pub": f"{public.decode()}\n"},
    }
    return f"# A private key: do not commit this file.\n{render_yaml([body])}"


def _check_free(paths: Sequence[Path], options: InitOptions) -> None:
    taken = [path for path in paths if path.exists() or path.is_symlink()]
    if taken and not options.force:
        lines = [f"{path}: exists; choose another NAME, or add --force" for path in taken]
        raise CliError(ExitCode.USAGE, *lines)


def _write(path: Path, text: str, options: InitOptions) -> None:
    mode = _SECRET_MODE if path.stem.endswith("-ssh") else 0o666
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if options.force:
            path.unlink(missing_ok=True)
        path.touch(mode=mode, exist_ok=False)
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(
            ExitCode.USAGE,
            f"--output: {path} cannot be written: {e.strerror}; name a directory that you may "
            "write to",
        ) from e


def _build_calls(gang: GangOptions, paths: Sequence[Path], workers: int) -> tuple[str, str]:
    """Build the commands that run the gang here and on a cluster."""
    files = [str(path) for path in paths]
    # A local cluster has one node, which offers the GPUs of all workers.
    local = ["--gpus", str(gang.gpus * workers)] if gang.gpus else []
    return build_command("run", "--local", *local, *files), build_command("run", *files)


def _explain(stack: Stack, gang: GangOptions, paths: Sequence[Path], workers: int) -> None:
    """Print the written files, the programs that they need, and the commands that run them."""
    here, cluster = _build_calls(gang, paths, workers)
    names = ", ".join(str(path) for path in paths)
    print_line(f"wrote {names}: Framework {gang.name}, {workers} workers; {stack.title}")
    print_line(f"here:          {here}    ({stack.needs} must be on the PATH)")
    print_line(f"on a cluster:  {cluster}")
    if gang.image is None and not stack.is_image_known:
        print_error(
            f"note: the image {stack.image} does not exist: before you run it on a cluster, write "
            f"yours into the file, or call this command with --image (it needs {stack.needs})"
        )
    if gang.gpus and not stack.uses_gpus:
        print_error("note: the Pods get GPUs, but the script of this stack computes on the CPU")
