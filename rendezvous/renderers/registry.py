"""All renderers by name; renders a generation with those that fit. Pure.

Without a choice of formats, every renderer is tried, and a format that is refused is left out with
its reason. A format that the user asked for by name must succeed.
"""

from typing import Dict, Mapping, NamedTuple

from rendezvous.core.membership import View
from rendezvous.core.refusal import NotConcernedError, PluginError, RefusedError
from rendezvous.renderers import (
    env_files,
    fb_variables,
    horovod,
    host_names,
    hosts,
    jax,
    peers_json,
    pytorch,
    tf_config,
)
from rendezvous.renderers.plugins import Renderer
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.options import Options

BUILT_IN: Mapping[str, Renderer] = {
    "fb_variables": fb_variables.render,
    "peers_json": peers_json.render,
    "tf_config": tf_config.render,
    "pytorch": pytorch.render,
    "horovod": horovod.render,
    "openmpi": hosts.render_openmpi,
    "hydra": hosts.render_hydra,
    "deepspeed": hosts.render_deepspeed,
    "jax": jax.render,
    "etc_hosts": host_names.render_etc_hosts,
    "ssh_config": host_names.render_ssh_config,
}


class Rendering(NamedTuple):
    """One generation, rendered."""

    files: Dict[str, RenderedFile]
    """The files of this generation, in ``current``."""
    fixed_files: Dict[str, RenderedFile]
    """The files beside ``current``, which are the same in every generation."""
    env: Dict[str, str]
    """The variables that a process exports."""
    refusals: Dict[str, RefusedError]
    """For each format (or ``.env``) that is missing, the reason; for the log."""
    moved: Dict[str, str]
    """For each variable too long to export, the variable that names its file; for the log."""


def render_all(view: View, options: Options, plugins: Mapping[str, Renderer] = {}) -> Rendering:
    """Render a generation; env.sh and .env hold the variables of all formats.

    Raises:
        RefusedError: A format that the user named is unknown or refused, or the environment
            cannot be written.
    """
    rendered: Dict[str, Rendered] = {}
    refusals: Dict[str, RefusedError] = {}
    for name, renderer in _choose(options, plugins).items():
        try:
            rendered[name] = renderer(view, options)
        except NotConcernedError as e:
            refusals[name] = e
        except RefusedError as e:
            if options.formats is not None:
                raise RefusedError(f"format {name}: {e.reason}", e.remedy) from e
            refusals[name] = e
    files: Dict[str, RenderedFile] = {}
    fixed_files: Dict[str, RenderedFile] = {}
    env: Dict[str, str] = {}
    for name, part in rendered.items():
        _check_overlap(name, part, files, env)
        files.update(part.files)
        fixed_files.update(part.fixed_files)
        env.update(part.env)
    environment = env_files.render_environment(env, view.get_path("").rstrip("/"))
    files.update(environment.files)
    refusals.update(environment.refusals)
    return Rendering(files, fixed_files, environment.env, refusals, environment.moved)


def _choose(options: Options, plugins: Mapping[str, Renderer]) -> Dict[str, Renderer]:
    for name in plugins:
        if name in BUILT_IN:
            raise PluginError(f"a plugin has the name of the built-in format {name}", "rename it")
    known = {**BUILT_IN, **plugins}
    if options.formats is None:
        return known
    unknown = [name for name in options.formats if name not in known]
    if unknown:
        raise RefusedError(
            f"there is no format {', '.join(unknown)}", f"FB_FORMATS may be {', '.join(known)}"
        )
    return {name: known[name] for name in options.formats}


def _check_overlap(
    name: str, part: Rendered, files: Mapping[str, RenderedFile], env: Mapping[str, str]
) -> None:
    own_names = {env_files.SHELL_FILE_NAME, env_files.DOTENV_FILE_NAME}
    taken = [f for f in part.files if f in files or f in own_names]
    taken += [variable for variable in part.env if variable in env]
    if taken:
        raise PluginError(f"format {name} writes {', '.join(taken)}, as another one does")
