"""The Secrets with the ssh keys of the TrainingJobs that ``framework run`` runs.

1. A Secret that the user has named must exist, except on a new local cluster: it is checked before
   anything is applied.
2. Any other one is created if neither the files nor the cluster have it. The Framework owns it, so
   it is deleted with the Framework.
3. A Secret that exists is never changed, and its values are never read. If it belongs to an earlier
   Framework of the same name, it is being deleted: wait until it is gone.
4. Without the right to create or read it, print a warning that names the Secret and the commands.

The key is only in the body of the request that creates the Secret.
"""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Iterable, Sequence

from cli.exitcodes import CliError, ExitCode
from cli.files.manifests import KeySecret
from cli.texts.sshkeys import FROM_FILES, MAKE_FILES
from framework.api import constants
from framework.clock import SystemKeys
from framework.kinds.trainingjob.types import SECRET_ANNOTATION
from framework.kube.client import KubeClient
from framework.kube.errors import AlreadyExistsError, ApiError, ForbiddenError, NotFoundError
from framework.kube.resources import SECRETS, Object

_GONE_SECONDS = 120.0
_POLL_SECONDS = 0.2


async def check_chosen(
    client: KubeClient, keys: Iterable[KeySecret], remark: Callable[[str], None]
) -> None:
    """Check that the Secrets that the user names exist; warn of those that may not be read.

    Raises:
        CliError: with the commands that create those that are missing.
        KubeError: the server could not be asked.
    """
    missing = []
    for key in keys:
        if key.is_created:
            continue
        try:
            if await _is_absent(client, key):
                missing += list(_explain_missing(key))
        except ForbiddenError:
            remark(f"warning: {_explain_forbidden(key, 'read')}")
    if missing:
        raise CliError(ExitCode.USAGE, *missing)


async def find_creatable(client: KubeClient, keys: Iterable[KeySecret]) -> list[KeySecret]:
    """Find the Secrets that would be created, except those that this user may not read.

    Raises:
        KubeError: the server could not be asked.
    """
    found = []
    for key in keys:
        with contextlib.suppress(ForbiddenError):
            if key.is_created and await _is_absent(client, key):
                found.append(key)
    return found


async def _is_absent(client: KubeClient, key: KeySecret) -> bool:
    """Return whether the cluster lacks a Secret. Only its metadata is requested."""
    try:
        await client.get_metadata(SECRETS, key.namespace, key.name)
    except NotFoundError:
        return True
    return False


async def create_keys(
    client: KubeClient,
    keys: Iterable[KeySecret],
    frameworks: Sequence[Object],
    say: Callable[[str], None],
    remark: Callable[[str], None],
) -> None:
    """Create the Secrets that the cluster lacks, for these Frameworks, and say so.

    Args:
        client: of the cluster.
        keys: the Secrets.
        frameworks: as stored; they own the Secrets.
        say: prints a line for each Secret that was created.
        remark: prints a warning for each Secret that this user may not create.

    Raises:
        CliError: the server refuses one.
        KubeError: the server could not be asked.
    """
    stored = {(f["metadata"]["namespace"], f["metadata"]["name"]): f for f in frameworks}
    for key in keys:
        if not key.is_created:
            continue
        try:
            is_new = await _create(client, key, stored[key.namespace, key.framework])
        except ForbiddenError:
            remark(f"warning: {_explain_forbidden(key, 'create')}")
            continue
        if is_new:
            say(
                f"{key.title} created, with a new ssh key for TrainingJob {key.framework}; it is "
                "deleted with its Framework"
            )


async def _create(client: KubeClient, key: KeySecret, framework: Object) -> bool:
    """Create a Secret; return False if it exists."""
    from framework.kinds.sshkey import add_key

    body = add_key(_build_secret(key, framework), SystemKeys().new_key())
    try:
        async with asyncio.timeout(_GONE_SECONDS):
            while True:
                try:
                    await client.create(SECRETS, key.namespace, body)
                except AlreadyExistsError:
                    if not await _is_of_earlier_framework(client, key, framework):
                        return False
                else:
                    return True
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as e:
        message = (
            f"{key.place}: {key.title} of an earlier Framework is not deleted after "
            f"{_GONE_SECONDS:.0f} s; check its finalizers"
        )
        raise CliError(ExitCode.USAGE, message) from e
    except ForbiddenError:
        raise
    except ApiError as e:
        # The answer may quote parts of the object.
        message = f"{key.place}: the API server refuses the Secret {key.name}: status {e.status}"
        code = ExitCode.UNREACHABLE if e.is_transient else ExitCode.USAGE
        raise CliError(code, message, *_build_commands(key)) from e


def _build_secret(key: KeySecret, framework: Object) -> Object:
    owner = {
        "apiVersion": constants.API_VERSION,
        "kind": constants.FRAMEWORK_KIND,
        "name": key.framework,
        "uid": framework["metadata"]["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]},
        "type": "Opaque",
    }


async def _is_of_earlier_framework(client: KubeClient, key: KeySecret, framework: Object) -> bool:
    """Return whether the Secret that exists belongs to an earlier Framework of this name."""
    try:
        found = await client.get_metadata(SECRETS, key.namespace, key.name)
    except NotFoundError:
        return True
    except ForbiddenError:
        return False
    owners = found["metadata"].get("ownerReferences") or []
    return bool(owners) and all(
        owner.get("kind") == constants.FRAMEWORK_KIND
        and owner.get("name") == key.framework
        and owner.get("uid") != framework["metadata"]["uid"]
        for owner in owners
    )


def _explain_missing(key: KeySecret) -> Iterable[str]:
    place = key.place.locate("metadata.annotations")
    yield (
        f"{place}: metadata.annotations[{SECRET_ANNOTATION}]: there is no Secret "
        f"{key.name!r} in namespace {key.namespace}, which the Pods mount: create it, put it into "
        "the file, or leave out the annotation, so that this command creates one:"
    )
    yield from _build_commands(key)


def _explain_forbidden(key: KeySecret, verb: str) -> str:
    commands = "; ".join(_build_commands(key))
    return (
        f"{key.place}: you may not {verb} Secrets in namespace {key.namespace} (status 403: no "
        f"right to do so, or a quota or policy): the Pods wait until the Secret {key.name} exists; "
        f"to create it: {commands}"
    )


def _build_commands(key: KeySecret) -> Iterable[str]:
    yield from (f"  {command}" for command in MAKE_FILES)
    words = ("kubectl", "create", "secret", "generic", key.name, "-n", key.namespace, *FROM_FILES)
    yield f"  {shlex.join(words)}"
