"""Annotations of a Pod execute nothing: clients without the right to create Pods may write them."""

import re
import sys
from pathlib import Path

from framework.api import constants
from rendezvous.settings.annotations import list_ignored
from rendezvous.settings.options import BY_ANNOTATION, OPTIONS, parse_options
from tests.rendezvous.agents import run_agent
from tests.support.servers.frameworkcrd import ROOT

# A hostile value of every setting that is not harmless.
HOSTILE = {
    "notify-command": "touch /tmp/taken",
    "plugins": "evil:render",
    "notify-url": "http://169.254.169.254/latest",
    "notify-signal": "KILL",
    "notify-process": "train.py",
    "listen": "127.0.0.1:1",
    "directory": "/etc",
    "torch-backend": "etcd",
    "torch-endpoint": "evil.example:2379",
    "torch-rdzv-conf": "cacert=/tmp/evil",
    "ssh-user": "root",
    "ssh-identity-file": "/tmp/evil",
    "ssh-server-port": "666",
    "rsh": "on",
    "scalers": "run",
    "rsh-server-port": "666",
    "rsh-timeout-sec": "1",
    "progress-file": "/etc/shadow",
    "progress-pattern": "{step}",
}


def annotate(values: dict[str, str]) -> dict[str, str]:
    return {constants.ANNOTATION_PREFIX + name: value for name, value in values.items()}


def test_hostile_annotations_change_no_setting_and_are_reported() -> None:
    annotations = annotate(HOSTILE)
    assert parse_options({}, {}, annotations) == parse_options({})
    lines = list(list_ignored(annotations))
    assert len(lines) == len(HOSTILE)
    (line,) = [line for line in lines if "notify-command" in line]
    assert "is ignored" in line
    assert "set FB_NOTIFY_COMMAND in the env of the agent's container" in line
    assert list(list_ignored(annotate({"slots": "2"}))) == []


def test_every_setting_is_either_harmless_or_refused() -> None:
    """A new setting is refused until it is in the list."""
    assert {setting.word for setting in OPTIONS} == BY_ANNOTATION | HOSTILE.keys()


def test_documentation_lists_the_settings_that_annotations_may_give() -> None:
    text = (ROOT / "docs" / "rendezvous.md").read_text(encoding="utf-8")
    listed = text.partition("These settings may be annotations:")[2].partition("The agent ignores")
    assert set(re.findall(r"`([a-z-]+)`", listed[0])) == BY_ANNOTATION


def test_plugin_of_an_annotation_is_not_imported(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    (tmp_path / "evil.py").write_text(f"open({str(taken)!r}, 'w').close()\ndef render(): ...\n")
    prefix = constants.ANNOTATION_PREFIX
    (tmp_path / "annotations").write_text(f'{prefix}plugins="evil:render"\n')
    env = {
        "PYTHONPATH": f"{ROOT}:{tmp_path}",
        "FB_ANNOTATIONS_FILE": str(tmp_path / "annotations"),
        constants.WORKING_DIR_ENV: str(tmp_path),
        constants.TERMINATION_LOG_ENV: "/nonexistent",
        constants.FRAMEWORK_NAMESPACE: "default",
        constants.FRAMEWORK_NAME: "gang",
        constants.TASKROLE_NAME: "worker",
        constants.TASK_INDEX: "0",
        constants.POD_NAME: "gang-worker-0",
    }
    with run_agent(env, "render", command=(sys.executable, "-m", "rendezvous")) as agent:
        agent.wait()  # it finds no API server
    assert f"annotation {prefix}plugins is ignored" in agent.text
    assert not taken.exists()
