"""All formats of one generation, what is left out and why, users' own renderers, size."""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rendezvous.core.membership import View
from rendezvous.core.refusal import NotConcernedError, PluginError, RefusedError
from rendezvous.renderers import plugins
from rendezvous.renderers.env_files import MAX_TOTAL_BYTES, MAX_VALUE_BYTES, render_environment
from rendezvous.renderers.plugins import guard, load_plugins
from rendezvous.renderers.registry import BUILT_IN, Rendering, render_all
from rendezvous.renderers.rendered import Rendered, RenderedFile
from rendezvous.settings.options import Options
from tests.rendezvous.gangs import IPV6, build_gang, build_options, build_role, build_roster, see
from tests.support.measuring.cost import assert_costs_at_most

ROOT = Path(__file__).parents[2]


def mine(_view: View, _options: Options) -> Rendered:
    return Rendered({"mine.conf": RenderedFile(b"x\n")}, {"MINE": "x"})


def test_all_formats_of_an_ipv6_gang_leave_out_what_is_refused_with_its_reason() -> None:
    rendering = render_all(see(build_gang(2, IPV6)), build_options())
    assert sorted(rendering.refusals) == ["horovod", "hydra"]
    assert "hosts.horovod" not in rendering.files
    assert {"env.sh", ".env", "peers.json", "tf_config.json", "hosts.openmpi"} <= set(
        rendering.files
    )


def test_all_formats_of_an_ipv4_gang_are_those_of_the_design() -> None:
    rendering = render_all(see(build_gang(2)), build_options())
    assert rendering.refusals == {}
    assert set(rendering.files) == {
        "env.sh",
        ".env",
        "peers.json",
        "tf_config.json",
        "hosts.openmpi",
        "hosts.hydra",
        "hosts.deepspeed",
        "hosts.horovod",
        "hosts.horovodrun",
        "etc-hosts",
        "ssh_config",
    }
    assert {file.mode for file in rendering.files.values()} == {0o444}
    assert rendering.fixed_files["discover_hosts.sh"].mode == 0o555


def test_format_asked_for_by_name_that_is_refused_is_an_error() -> None:
    options = build_options(formats="horovod")
    with pytest.raises(RefusedError, match="format horovod: Horovod cannot read the IPv6"):
        render_all(see(build_gang(1, IPV6)), options)


def test_format_asked_for_by_name_that_does_not_concern_the_role_is_skipped() -> None:
    roster = build_roster(build_role("worker", 1), build_role("launcher", 1, first=9))
    rendering = render_all(see(roster, "launcher"), build_options(formats="pytorch,openmpi"))
    assert isinstance(rendering.refusals["pytorch"], NotConcernedError)
    assert set(rendering.files) == {"hosts.openmpi", "env.sh", ".env"}


def test_format_that_is_unknown_is_an_error_that_lists_them() -> None:
    with pytest.raises(RefusedError, match="there is no format mxnet; FB_FORMATS may be fb_var"):
        render_all(see(build_gang(1)), build_options(formats="mxnet"))


def test_same_gang_renders_the_same_bytes_in_every_member_but_its_own_part() -> None:
    views = [see(build_gang(5), index=i) for i in range(5)]
    shared = [name for name in render_all(views[0], Options()).files if name.startswith("hosts")]
    for name in (*shared, "etc-hosts", "ssh_config"):
        assert len({render_all(view, Options()).files[name] for view in views}) == 1, name


# --- Long values ------------------------------------------------------------------------------


def test_value_too_long_to_export_becomes_a_file_that_a_variable_names() -> None:
    fitted = render_environment(
        {"FB_A_IPS": "x" * MAX_VALUE_BYTES, "TF_CONFIG": "y" * 200_000}, "/v"
    )
    assert fitted.env == {
        "FB_A_IPS_FILE": "/v/FB_A_IPS.txt",
        "FB_TF_CONFIG_FILE": "/v/TF_CONFIG.txt",
    }
    assert fitted.files["TF_CONFIG.txt"].content == b"y" * 200_000 + b"\n"


def test_values_too_long_together_become_files_longest_first() -> None:
    env = {f"V{i}": "x" * (50_000 + i) for i in range(30)}
    fitted = render_environment(env, "/v")
    assert list(fitted.moved) == [f"V{i}" for i in range(29, 29 - len(fitted.moved), -1)]
    kept = sum(len(name) + len(value) + 2 for name, value in fitted.env.items())
    assert kept <= MAX_TOTAL_BYTES + 100 * len(fitted.moved)
    assert 30 - len(fitted.moved) == 19


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_gang_of_ten_thousand_renders_in_time(family: str) -> None:
    roster = build_gang(10_000, family)
    # The target is 1 s; this only catches quadratics.
    assert_costs_at_most(4.0, lambda: render_all(see(roster, index=9_999), Options()))
    rendering = render_all(see(roster, index=9_999), Options())
    assert "FB_WORKER_ADDRESSES" in rendering.moved
    assert rendering.env["FB_WORKER_ADDRESSES_FILE"].endswith("/current/FB_WORKER_ADDRESSES.txt")
    listed = rendering.files["FB_WORKER_ADDRESSES.txt"].content
    assert listed.count(b",") == 9_999


# --- Plugins ----------------------------------------------------------------------------------


def render_with(plugin: Callable[[View, Options], Any], **flags: str) -> Rendering:
    return render_all(see(build_gang(1)), build_options(**flags), {"mine": guard("mine", plugin)})


def test_plugin_is_rendered_beside_the_built_in_formats() -> None:
    rendering = render_with(mine)
    assert rendering.files["mine.conf"].content == b"x\n"
    assert rendering.env["MINE"] == "x"
    assert b"export MINE='x'\n" in rendering.files["env.sh"].content
    assert set(render_with(mine, formats="mine").files) == {"mine.conf", "env.sh", ".env"}


@pytest.mark.parametrize(
    "returned",
    [
        None,
        {"mine.conf": b"x"},
        Rendered({"../x": RenderedFile(b"")}),
        Rendered({"a/b": RenderedFile(b"")}),
        Rendered({"": RenderedFile(b"")}),
        Rendered({"x": RenderedFile("text")}),  # type: ignore[arg-type]  # what plugins may do
        Rendered({"x": RenderedFile(b"", 0o644)}),
        Rendered({"x": RenderedFile(b"", 0o4755)}),
        Rendered({}, {"A B": "x"}),
        Rendered({}, {"A": "x\ny"}),
        Rendered({}, {"A": 1}),  # type: ignore[dict-item]  # what plugins may do
        Rendered({}, {}, {"run.sh": RenderedFile(b"")}),
    ],
)
def test_plugin_that_returns_what_is_no_rendering_costs_only_its_format(returned: Any) -> None:
    rendering = render_with(lambda _view, _options: returned)
    assert isinstance(rendering.refusals["mine"], PluginError)
    assert "peers.json" in rendering.files


def test_plugin_that_fails_costs_only_its_format() -> None:
    def fail(_view: View, _options: Options) -> Rendered:
        raise KeyError("rank")

    rendering = render_with(fail)
    assert str(rendering.refusals["mine"]) == "the renderer mine failed: KeyError: 'rank'"


@pytest.mark.parametrize(
    "rendered",
    [
        Rendered({"peers.json": RenderedFile(b"")}),
        Rendered({"env.sh": RenderedFile(b"")}),
        Rendered({}, {"TF_CONFIG": "x"}),
    ],
)
def test_plugin_that_writes_over_another_format_is_an_error(rendered: Rendered) -> None:
    with pytest.raises(PluginError, match="as another one does"):
        render_with(lambda _view, _options: rendered)


def test_plugin_with_a_built_in_name_is_an_error() -> None:
    with pytest.raises(PluginError, match="built-in format jax"):
        render_all(see(build_gang(1)), Options(), {"jax": mine})


def test_plugins_are_loaded_by_entry_point_and_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from rendezvous.renderers.rendered import Rendered\n"
        "def spark(view, options):\n    return Rendered({}, {'SPARK': view.framework})\n"
    )
    (tmp_path / "spark_renderer.py").write_text(text)
    installed = tmp_path / "spark-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: spark\nVersion: 1\n")
    points = f"[{plugins.ENTRY_POINT_GROUP}]\nray = spark_renderer:spark\n"
    (installed / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    assert metadata.entry_points(group=plugins.ENTRY_POINT_GROUP)
    found = load_plugins(["spark_renderer:spark"])
    assert set(found) == {"ray", "spark"}
    assert found["ray"](see(build_gang(1)), Options()).env == {"SPARK": "job"}


@pytest.mark.parametrize("path", ["no_such_room:render", "rendezvous.renderers.registry:nothing"])
def test_plugin_that_cannot_be_loaded_is_named(path: str) -> None:
    with pytest.raises(PluginError, match=f"renderer {path.partition(':')[2]} cannot be loaded"):
        load_plugins([path])


def test_every_built_in_renderer_is_a_function_of_its_arguments() -> None:
    view, options = see(build_gang(3)), build_options()
    renderers: list[Callable[[View, Options], Rendered]] = list(BUILT_IN.values())
    assert [r(view, options) for r in renderers] == [r(view, options) for r in renderers]
