"""Users' own renderers: found by entry point or setting, and checked.

A plugin is a function ``render(view, options)`` that returns ``Rendered`` (without fixed files) or
raises ``RefusedError``. Its faults become ``PluginError``, and other formats are still rendered.
"""

import importlib
from typing import Any, Callable, Dict, Iterable, Tuple

from rendezvous.core.membership import View
from rendezvous.core.refusal import PluginError, RefusedError
from rendezvous.renderers.quoting import check_value, is_file_name
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.options import Options

ENTRY_POINT_GROUP = "frameworkbarrier.renderers"
_ALLOWED_MODE = 0o555

Renderer = Callable[[View, Options], Rendered]


def load_plugins(named: Iterable[str]) -> Dict[str, Renderer]:
    """Load the plugins installed beside this program and those named ``MODULE:FUNCTION``.

    The name of a format is that of the entry point or of the function. Python 3.7 cannot list entry
    points, so only named plugins are found there.

    Raises:
        PluginError: A plugin cannot be loaded.
    """
    found: Dict[str, Renderer] = {}
    for name, load in [*_list_entry_points(), *map(_find_named, named)]:
        try:
            renderer = load()
        except (ImportError, AttributeError, SyntaxError) as e:
            raise PluginError(
                f"the renderer {name} cannot be loaded: {type(e).__name__}: {e}",
                "install its package where the agent's Python finds it",
            ) from e
        if not callable(renderer):
            raise PluginError(f"the renderer {name} is not a function")
        found[name] = guard(name, renderer)
    return found


def guard(name: str, renderer: Callable[[View, Options], Any]) -> Renderer:
    """Wrap a plugin: its faults become ``PluginError``, and its result is checked."""

    def render(view: View, options: Options) -> Rendered:
        try:
            rendered = renderer(view, options)
        except RefusedError:
            raise
        except Exception as e:
            raise PluginError(f"the renderer {name} failed: {type(e).__name__}: {e}") from e
        try:
            return _check(rendered)
        except (RefusedError, TypeError, ValueError, AttributeError) as e:
            raise PluginError(f"the renderer {name} did not return a rendering: {e}") from e

    return render


def _check(rendered: Any) -> Rendered:
    files: Dict[str, RenderedFile] = {}
    if not isinstance(rendered, Rendered):
        raise TypeError(f"a {type(rendered).__name__} instead of Rendered")
    if rendered.fixed_files:
        raise ValueError("files beside the generations are not for plugins")
    for file_name, (content, mode) in rendered.files.items():
        if not is_file_name(file_name):
            raise ValueError(f"{file_name!r:.80} is not a plain file name")
        if not isinstance(content, bytes):
            raise TypeError(f"the content of {file_name} is not bytes")
        if mode & ~_ALLOWED_MODE:
            raise ValueError(f"the mode of {file_name} allows writing")
        files[file_name] = RenderedFile(content, mode)
    for name, value in rendered.env.items():
        check_value(name, value)
    return Rendered(files, dict(rendered.env))


def _find_named(path: str) -> Tuple[str, Callable[[], Any]]:
    module, _, function = path.partition(":")
    return function, lambda: getattr(importlib.import_module(module), function)


def _list_entry_points() -> "list[tuple[str, Callable[[], Any]]]":
    try:
        metadata: Any = importlib.import_module("importlib.metadata")
    except ImportError:
        return []  # Python 3.7
    points = metadata.entry_points()
    # Python 3.8 and 3.9 return a mapping.
    chosen = (
        points.select(group=ENTRY_POINT_GROUP)
        if hasattr(points, "select")
        else points.get(ENTRY_POINT_GROUP, ())
    )
    return [(point.name, point.load) for point in chosen]
