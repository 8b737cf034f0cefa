"""Settings: precedence, every form, every bad value named with its remedy."""

import re
from pathlib import Path
from typing import Any

import pytest

from framework.agent.clock import AgentClock
from framework.api import constants
from rendezvous.app import Program
from rendezvous.renderers.registry import BUILT_IN, render_all
from rendezvous.settings.annotations import list_ignored, parse_annotations, read_annotations
from rendezvous.settings.arguments import parse_arguments
from rendezvous.settings.kinds import RoleKind, map_roles
from rendezvous.settings.option import OptionsError, Problem
from rendezvous.settings.options import OPTIONS, Options, parse_options
from rendezvous.settings.unused_settings import list_foreign_roles, list_misspelt, list_named_roles
from rendezvous.settings.values import RolePort
from tests.rendezvous.gangs import build_gang, build_role, build_roster, see


@pytest.mark.parametrize(
    "option", [*OPTIONS, "PORT or PORT+index"], ids=lambda o: getattr(o, "name", "role port")
)
def test_remedy_of_every_setting_has_an_example_and_no_placeholder(option: Any) -> None:
    form = option if isinstance(option, str) else option.form
    remedy = Problem("FB_X", "?", "it is wrong", form).remedy
    assert set(re.findall(r"[A-Z]{1,}", remedy)) <= {"HUP", "URL"}, remedy


def test_remedy_of_seconds_names_a_number() -> None:
    with pytest.raises(OptionsError, match="write a number of seconds, for example 300"):
        parse_options({"FB_PROGRESS_TIMEOUT_SEC": "5m"}, {}, {})


@pytest.mark.parametrize(
    ("flags", "env", "annotations", "expected"),
    [
        ({"tf_mode": "sparse"}, {"FB_TF_MODE": "dense"}, {}, "sparse"),
        ({}, {"FB_TF_MODE": "sparse"}, {"frameworkbarrier.io/tf-mode": "dense"}, "sparse"),
        ({}, {"FB_TF_MODE": ""}, {"frameworkbarrier.io/tf-mode": "sparse"}, "sparse"),
        ({}, {}, {}, "dense"),
    ],
    ids=["flag", "env", "annotation", "default"],
)
def test_options_given_in_several_places_take_the_strongest(
    flags: dict[str, str], env: dict[str, str], annotations: dict[str, str], expected: str
) -> None:
    assert parse_options(env, flags, annotations).tf_mode == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("formats", "auto", None),
        ("formats", "pytorch, jax", ("pytorch", "jax")),
        ("plugins", "my.room:render", ("my.room:render",)),
        ("directory", "/data/peers/", "/data/peers"),
        ("directory", "/", "/"),
        ("roles", "a=worker,b=none", {"a": RoleKind.WORKER, "b": RoleKind.NONE}),
        ("ports", "1,ps=65535", {"": RolePort(1), "ps": RolePort(65535)}),
        ("ports", "ps=10+index", {"": RolePort(2222), "ps": RolePort(10, per_index=True)}),
        ("slots", "8,launcher=0", {"": 8, "launcher": 0}),
        ("torch_nodes", "2:8", (2, 8)),
        ("torch_nodes", "4", (4, 4)),
        ("torch_nodes", "", None),
        ("torch_nproc", "gpu", "gpu"),
        ("torch_nproc", "1", "1"),
        ("torch_endpoint", "[fd00::1]:29400", "[fd00::1]:29400"),
        ("torch_rdzv_conf", "", ""),
        ("ssh_user", "mpi", "mpi"),
        ("coordinator", "master", "master"),
    ],
)
def test_option_of_good_form_is_parsed(name: str, text: str, expected: object) -> None:
    assert getattr(parse_options({}, {name: text}), name) == expected


BAD_FORMS = {
    "formats": ("", "pytorch,,jax"),
    "plugins": ("my.room",),
    "directory": ("relative", "/a\nb"),
    "roles": ("worker", "a=boss", "A=worker", "a=ps,a=worker"),
    "ports": ("0", "65536", "+index", "worker=", "\u0661\u0662"),
    "slots": ("-1", "1e3", "99999"),
    "ip_family": ("IPv4",),
    "torch_nodes": ("3:2", "0:2"),
    "torch_nproc": ("all", "0"),
    "torch_endpoint": ("fd00::1:29400", "host:0", "a b:1"),
    "torch_rdzv_conf": ("is_host=1", "a=b c"),
    "torch_master_port": ("1+index",),
    "torch_max_restarts": ("many",),
    "ssh_user": ("-oProxyCommand=x",),
    "ssh_identity_file": ('/a"b', "/a/%h"),
    "coordinator": ("no-role",),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in BAD_FORMS.items() for text in texts]
)
def test_option_of_bad_form_is_reported_with_name_value_and_remedy(name: str, text: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_options({}, {name: text})
    (problem,) = caught.value.problems
    assert problem.name == "--" + name.replace("_", "-")
    assert problem.value == text
    assert problem.remedy.startswith("write ")


def test_options_with_several_faults_report_all_under_the_names_used() -> None:
    env = {"FB_SLOTS": "x", "FB_PS_PORT": "http", "BARRIER_WORKING_DIR": "here"}
    with pytest.raises(OptionsError) as caught:
        parse_options(env, {"tf_mode": "both"}, {"frameworkbarrier.io/roles": "x"})
    assert [problem.name for problem in caught.value.problems] == [
        "BARRIER_WORKING_DIR",
        "frameworkbarrier.io/roles",
        "FB_SLOTS",
        "--tf-mode",
        "FB_PS_PORT",
    ]


def test_port_variable_of_a_role_is_taken_unless_ports_name_the_role() -> None:
    env = {"FB_WORKER_PORT": "4001", "FB_PS_PORT": "4002", "FB_PORTS": "ps=5000"}
    ports = parse_options(env).ports
    assert (ports["worker"].base, ports["ps"].base, ports[""].base) == (4001, 5000, 2222)


def test_port_variable_that_kubernetes_sets_for_a_service_is_ignored() -> None:
    assert parse_options({"FB_WORKER_PORT": "tcp://10.0.0.1:80"}) == Options()


def test_no_setting_has_the_name_of_a_variable_that_is_rendered() -> None:
    """Else env.sh, sourced where an agent runs, would change its settings (ports may: the same)."""
    settings = {option.env_name for option in OPTIONS}
    roster = build_roster(
        *(build_role(n, 1) for n in ("worker", "ps", "tf", "torch", "ssh", "jax"))
    )
    written = set(render_all(see(roster), Options()).env)
    assert not settings & written
    role_variable = re.compile(r"FB_[A-Z0-9]+_(IPS|ADDRESSES|COUNT|PORT)(_FILE)?\Z")
    assert not [name for name in settings if role_variable.match(name)]
    of_roles = {name for name in written if role_variable.match(name)}
    fixed = set(render_all(see(build_gang(1, name="a"), "a"), Options()).env)
    assert not {name for name in fixed & of_roles if not name.startswith("FB_A_")}


def test_directory_setting_is_the_barriers_own() -> None:
    assert Options.directory.env_name == constants.WORKING_DIR_ENV


def test_names_of_formats_are_those_users_may_write() -> None:
    assert parse_options({}, {"formats": ",".join(BUILT_IN)}).formats == tuple(BUILT_IN)


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (["chief", "worker", "ps", "evaluator"], {}, "chief worker ps evaluator"),
        (["master", "worker"], {}, "master worker"),
        (["launcher", "worker"], {}, "launcher worker"),
        (["server", "worker"], {}, "ps worker"),
        (["trainer"], {}, "worker"),
        (["launcher", "trainer"], {}, "launcher worker"),
        (["worker", "tensorboard"], {}, "worker none"),
        (["prefill", "decode"], {}, "none none"),
        (["prefill", "decode"], {"decode": RoleKind.WORKER}, "none worker"),
        (["worker", "tensorboard"], {"worker": RoleKind.PS}, "ps worker"),
        (["ps"], {"ps": RoleKind.NONE}, "none"),
    ],
)
def test_role_kinds_follow_the_mapping_then_the_name(
    names: list[str], given: dict[str, RoleKind], expected: str
) -> None:
    assert " ".join(kind.value for kind in map_roles(names, given).values()) == expected


def test_bad_settings_are_reported_each_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    env = {"FB_SLOTS": "x", "FB_LISTEN": "0.0.0.0:1", "BARRIER_TERMINATION_LOG": "/nonexistent"}
    arguments = parse_arguments(["render"])
    assert Program(arguments, env, AgentClock()).run() == 210
    lines = capsys.readouterr().err.splitlines()
    starts = [line.removeprefix("rendezvous: error: ").partition("=")[0] for line in lines]
    assert starts[:2] == ["FB_SLOTS", "FB_LISTEN"]
    assert not any("?" in line for line in lines)


# --- Annotations of the Pod

PREFIX = "frameworkbarrier.io/"


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        ("", ""),
        ("worker=2222,ps=2223", "worker=2222,ps=2223"),
        (r"echo \"a\\b\" $X", r'echo "a\b" $X'),
        (r"a\nb\tc\r\a\b\f\v", "a\nb\tc\r\a\b\f\v"),
        (r"\x7f\u00ad\U0001f600\u2028", "\x7f\xad\U0001f600\u2028"),
        ("größe", "größe"),
        (r"\U7fffffff", "\ufffd"),
    ],
)
def test_value_is_read_as_go_quotes_it(quoted: str, value: str) -> None:
    text = f'before="1"\n{PREFIX}x="{quoted}"\nafter="2"\n'
    assert parse_annotations(text) == {"before": "1", PREFIX + "x": value, "after": "2"}


@pytest.mark.parametrize("line", ["x", "x=1", 'x="1', 'x="1"2"', '="1"', 'x="\\"', "\x00"])
def test_line_that_is_none_is_left_out(line: str) -> None:
    assert parse_annotations(f'{line}\na="b"') == {"a": "b"}


def test_annotations_file_may_be_absent_unless_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "annotations"
    assert read_annotations({}) == {}
    with pytest.raises(FileNotFoundError):
        read_annotations({"FB_ANNOTATIONS_FILE": str(file)})
    file.write_text('a="b"')
    assert read_annotations({"FB_ANNOTATIONS_FILE": str(file)}) == {"a": "b"}


def test_annotation_names_differ_and_unknown_names_are_reported() -> None:
    names = [setting.annotation for setting in OPTIONS]
    assert len(set(names)) == len(names)
    given = [setting.annotation for setting in OPTIONS if setting.by_annotation]
    known = dict.fromkeys([*given, PREFIX + "wrapper", PREFIX + "acknowledged-generation"], "")
    (line,) = list_ignored({**known, PREFIX + "prots": ""})
    assert line == f"annotation {PREFIX}prots: there is no such setting"


# --- Settings without effect

KNOWN = [setting.env_name for setting in OPTIONS]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FB_SLOT", "FB_SLOTS"),
        ("FB_PORT", "FB_PORTS"),
        ("FB_prots", "FB_PORTS"),
        ("FB_TIMEOUT_SECS", "FB_TIMEOUT_SEC"),
        ("FB_TORCH_MASTR_PORT", "FB_TORCH_MASTER_PORT"),
    ],
)
def test_misspelt_variable_is_reported_with_the_setting_meant(name: str, meant: str) -> None:
    assert list(list_misspelt({name: "8"})) == [
        f"{name}: there is no such setting; is {meant} meant?"
    ]


def test_known_variables_and_those_of_users_are_not_reported() -> None:
    ours = ["FB_ROLE", "FB_SIZE", "FB_WORKER_PORT", "FB_PORTSX_PORT", "FB_SLOTS_COUNT"]
    own = ["FB_DATASET", "FB_LEARNING_RATE", "SLOT", "FB_"]
    assert list(list_misspelt(dict.fromkeys([*KNOWN, *ours, *own], "1"))) == []


def test_roles_that_the_gang_lacks_are_reported_with_those_it_has() -> None:
    env = {"FB_PORTS": "wurker=2222,worker=2223", "FB_SLOTS": "8", "FB_ROLES": "chef=chief"}
    named = list_named_roles(parse_options(env), env)
    assert list(list_foreign_roles(named, build_gang(2))) == [
        "FB_PORTS: the gang has no role 'wurker'; it has worker",
        "FB_ROLES: the gang has no role 'chef'; it has worker",
    ]


def test_port_variable_of_another_role_is_not_reported() -> None:
    env = {"FB_DASHBOARD_PORT": "8080"}
    named = list_named_roles(parse_options(env), env)
    assert list(list_foreign_roles(named, build_gang(2))) == []
