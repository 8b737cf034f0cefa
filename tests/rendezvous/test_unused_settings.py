"""What nobody reads is told, and what is the user's own business is not."""

import pytest

from rendezvous.settings.options import OPTIONS, parse_options
from rendezvous.settings.unused_settings import list_foreign_roles, list_misspelt, list_named_roles
from tests.rendezvous.gangs import build_gang

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
def test_misspelt_variable_is_told_with_what_is_meant(name: str, meant: str) -> None:
    assert list(list_misspelt({name: "8"})) == [
        f"{name}: there is no such setting; is {meant} meant?"
    ]


def test_variables_that_are_known_ours_or_the_users_own_are_not_told() -> None:
    ours = ["FB_ROLE", "FB_SIZE", "FB_WORKER_PORT", "FB_PORTSX_PORT", "FB_SLOTS_COUNT"]
    own = ["FB_DATASET", "FB_LEARNING_RATE", "SLOT", "FB_"]
    assert list(list_misspelt(dict.fromkeys([*KNOWN, *ours, *own], "1"))) == []


def test_roles_that_the_gang_lacks_are_told_with_those_it_has() -> None:
    env = {"FB_PORTS": "wurker=2222,worker=2223", "FB_SLOTS": "8", "FB_ROLES": "chef=chief"}
    named = list_named_roles(parse_options(env), env)
    assert list(list_foreign_roles(named, build_gang(2))) == [
        "FB_PORTS: the gang has no role 'wurker'; it has worker",
        "FB_ROLES: the gang has no role 'chef'; it has worker",
    ]


def test_port_variable_of_another_role_is_not_told() -> None:
    env = {"FB_DASHBOARD_PORT": "8080"}
    named = list_named_roles(parse_options(env), env)
    assert list(list_foreign_roles(named, build_gang(2))) == []
