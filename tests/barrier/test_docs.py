"""docs/barrier.md has every setting with its default, every level, and every difference."""

import re

import yaml

from barrier.app import _USAGE
from barrier.config import load_config
from barrier.injector import render_injector
from barrier.requirements import Level
from framework.agent.dns_source import DEFAULT_NAME
from framework.agent.exitcodes import ExitCode
from framework.api import constants
from framework.api.codec import decode_framework
from framework.api.validation import validate_framework
from tests.barrier.api_server import make_roster
from tests.barrier.conftest import ROOT
from tests.barrier.test_decision import ENV
from tests.barrier.test_golden import DIFFERENCES

DOC = (ROOT / "docs" / "barrier.md").read_text()
ROWS = {line.split("`")[1]: line for line in DOC.splitlines() if line.startswith("| `")}
VARIABLES = {
    value
    for name, value in vars(constants).items()
    if name.endswith("_ENV") and str(value).startswith("BARRIER_")
}


def test_every_setting_is_documented_and_no_other() -> None:
    assert {name for name in ROWS if name.startswith("BARRIER_")} == VARIABLES


def test_defaults_are_the_documented_ones() -> None:
    config = load_config(ENV)
    defaults = {
        constants.BARRIER_CHECK_INTERVAL_ENV: config.interval_seconds,
        constants.BARRIER_CHECK_TIMEOUT_ENV: config.timeout_seconds,
        constants.BARRIER_QUORUM_GRACE_ENV: config.quorum_grace_seconds,
        constants.BARRIER_DNS_NAME_ENV: f"`{DEFAULT_NAME}`",
        constants.BARRIER_FRAMEWORK_JSON_ENV: f"`{config.framework_json.value}`",
        constants.WORKING_DIR_ENV: f"`{config.working_dir}`",
        constants.TERMINATION_LOG_ENV: f"`{config.termination_log}`",
    }
    for name, default in defaults.items():
        assert ROWS[name].split("|")[2].strip() == str(default), name


def test_every_level_and_exit_code_is_documented() -> None:
    for level in Level:
        assert re.search(rf"^\| `{level.value}(:PORT)?` \|", DOC, re.MULTILINE), level
    codes = {ExitCode.PASSED, ExitCode.UNKNOWN, ExitCode.TRANSIENT_CONFLICT, ExitCode.PERMANENT}
    for code in codes:
        assert re.search(rf"^\| {code.value} \|", DOC, re.MULTILINE), code


def test_every_difference_from_the_original_has_its_row() -> None:
    section = DOC.partition("## Differences from the original")[2].partition("\n## ")[0]
    for name, code in DIFFERENCES.items():
        row = next(line for line in section.splitlines() if line.startswith(f"| {name[:3]} "))
        assert str(code) in row


def test_links_within_the_page_have_a_heading() -> None:
    anchors = {
        re.sub(r"[^a-z0-9_ -]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^##+ (.*)$", DOC, re.MULTILINE)
    }
    assert set(re.findall(r"\(#([^)]*)\)", DOC)) <= anchors


def test_usage_names_the_settings() -> None:
    for name in VARIABLES - {constants.TERMINATION_LOG_ENV}:
        assert name in _USAGE


def test_injector_shown_is_the_one_written() -> None:
    shown = DOC.partition("```sh\n")[2].partition("```")[0]
    assert shown.encode() == render_injector(make_roster(), "/volume").script


def test_complete_pod_is_a_valid_framework() -> None:
    shown = yaml.safe_load(DOC.partition("```yaml\n")[2].partition("```")[0])
    framework = decode_framework(shown)
    assert validate_framework(framework) == ()
