"""The gang's NetworkPolicy, after the command its file gives to the reader."""

import re

import pytest
import yaml

from tests.support.servers.frameworkcrd import ROOT

FOLDER = ROOT / "deploy" / "agents" / "network"
PAGES = ("docs/security.md", "deploy/agents/README.md")


def test_gang_policy_after_the_command_in_its_file_selects_the_gangs_pods() -> None:
    command = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8").splitlines()[0]
    replaced = re.search(r"sed 's/(\w+)/gang/g'", command)
    assert replaced is not None
    text = (FOLDER / "networkpolicy.yaml").read_text(encoding="utf-8")
    policy = yaml.safe_load(text.replace(replaced[1], "gang"))
    selector = {"matchLabels": {"FC_FRAMEWORK_NAME": "gang"}}
    assert policy["metadata"]["name"] == "frameworkbarrier-gang"
    assert policy["spec"]["podSelector"] == selector
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]


def test_controller_is_open_to_prometheus_only_by_namespace_and_label() -> None:
    text = (ROOT / "deploy" / "network" / "controller.yaml").read_text(encoding="utf-8")
    (rule,) = yaml.safe_load(text)["spec"]["ingress"]
    # One peer with both selectors: two peers would be open to either.
    (peer,) = rule["from"]
    assert {key: set(selector["matchLabels"]) for key, selector in peer.items()} == {
        "namespaceSelector": {"kubernetes.io/metadata.name"},
        "podSelector": {"app.kubernetes.io/name"},
    }
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]


@pytest.mark.parametrize("page", PAGES)
def test_page_that_names_the_policy_gives_the_command(page: str) -> None:
    command = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert command.removeprefix("# ") in (ROOT / page).read_text(encoding="utf-8")
