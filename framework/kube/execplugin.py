"""Runs a credential plugin of client-go: a program that prints an ExecCredential.

The protocol is described in
kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

_NEVER_INTERACTIVE = "Never"
_END_SECONDS = 1.0


class PluginError(Exception):
    """The plugin failed, or printed no valid ExecCredential; the message has the reason."""


async def run_plugin(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run the plugin and return the ``status`` of the ExecCredential that it prints.

    Args:
        spec: the ``exec`` section of a kubeconfig's user.

    Raises:
        PluginError: it ended with an error, or its output cannot be used.
        OSError: it cannot be started.
    """
    is_interactive = _is_interactive(spec)
    process = await asyncio.create_subprocess_exec(
        spec["command"],
        *(spec.get("args") or ()),
        env=_build_environment(spec, is_interactive=is_interactive),
        stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A session of its own, so that the children of the plugin are killed with it. A plugin
        # that asks its user needs the session of the terminal.
        start_new_session=not is_interactive,
    )
    try:
        output, complaint = await process.communicate()
    except asyncio.CancelledError:
        await _end(process, is_group=not is_interactive)
        raise
    if process.returncode != 0:
        reason = complaint.decode("utf-8", "replace").strip()
        raise PluginError(f"it returned {process.returncode}{reason and f': {reason}'}")
    return _parse_status(output, spec["apiVersion"])


async def _end(process: asyncio.subprocess.Process, *, is_group: bool) -> None:
    """Kill a plugin whose request was cancelled, and close its pipes.

    A process that left the plugin's group may hold the pipes, so the wait for them is short.
    """
    with suppress(ProcessLookupError):
        if is_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), _END_SECONDS)


def _is_interactive(spec: Mapping[str, Any]) -> bool:
    """Return whether the plugin may ask its user."""
    is_allowed = spec.get("interactiveMode") != _NEVER_INTERACTIVE
    return is_allowed and sys.stdin is not None and sys.stdin.isatty()


def _build_environment(spec: Mapping[str, Any], *, is_interactive: bool) -> dict[str, str]:
    info = {
        "apiVersion": spec["apiVersion"],
        "kind": "ExecCredential",
        "spec": {"interactive": is_interactive},
    }
    added = {item["name"]: item["value"] for item in spec.get("env") or ()}
    return {**os.environ, **added, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}


def _parse_status(output: bytes, api_version: str) -> Mapping[str, Any]:
    try:
        credential = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise PluginError(f"its output is not JSON: {e}") from e
    if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
        raise PluginError("its output is not an ExecCredential")
    if credential.get("apiVersion") != api_version:
        raise PluginError(
            f"it answers as {credential.get('apiVersion')!r}, the kubeconfig says {api_version!r}"
        )
    status = credential.get("status")
    if not isinstance(status, dict):
        raise PluginError("its ExecCredential has no status")
    return status
