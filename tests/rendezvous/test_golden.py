"""Bytes of every renderer for 1, 2 and 100 members, IPv4 and IPv6, or the refusal.

Read the files in tests/golden/rendezvous as what a Pod finds; each ends with its variables.
"""

from collections.abc import Callable

import pytest

from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.registry import BUILT_IN, render_all
from rendezvous.renderers.rendered import Rendered
from tests.rendezvous.gangs import IPV4, IPV6, build_gang, build_options, build_role, build_roster
from tests.rendezvous.gangs import see as see_gang

Golden = Callable[[str, bytes], None]


def describe(rendered: Rendered) -> bytes:
    parts: list[bytes] = []
    for title, files in (("file", rendered.files), ("beside", rendered.fixed_files)):
        for name, (content, mode) in files.items():
            parts.append(f"== {title} {name} {mode:o}\n".encode() + content)
    if rendered.env:
        lines = [f"{name}={value}\n" for name, value in rendered.env.items()]
        parts.append(b"== variables\n" + "".join(lines).encode())
    return b"".join(parts)


@pytest.mark.parametrize("family", [IPV4, IPV6])
@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("name", BUILT_IN)
def test_renderer_for_workers_gives_the_golden_bytes(
    name: str, count: int, family: str, golden: Golden
) -> None:
    view = see_gang(build_gang(count, family), index=count - 1)
    try:
        actual = describe(BUILT_IN[name](view, build_options()))
    except RefusedError as e:
        actual = f"== refused\n{e}\n".encode()
    golden(f"rendezvous/{name}-{count}-{family}.txt", actual)


@pytest.mark.parametrize(
    ("name", "role", "flags"),
    [
        ("tf_config", "chief", {"tf_mode": "sparse"}),
        ("tf_config", "worker", {"tf_mode": "sparse"}),
        ("tf_config", "ps", {"tf_mode": "sparse"}),
        ("tf_config", "evaluator", {"tf_mode": "dense", "tf_rpc_layer": "grpc"}),
        ("pytorch", "worker", {"torch_mode": "elastic"}),
        ("pytorch", "chief", {"torch_mode": "elastic", "torch_nproc": "gpu"}),
        (
            "pytorch",
            "worker",
            {
                "torch_mode": "elastic",
                "torch_backend": "etcd-v2",
                "torch_endpoint": "etcd.default.svc:2379",
                "torch_nodes": "2:8",
            },
        ),
        ("horovod", "worker", {"host_style": "name", "slots": "8"}),
        ("openmpi", "launcher", {"slots": "4,launcher=1"}),
        ("hydra", "launcher", {"slots": "4"}),
        ("ssh_config", "worker", {"ssh_user": "mpi", "ssh_identity_file": "/keys/my id"}),
    ],
    ids=lambda value: (
        "-".join(value.values()).replace("/", "_").replace(":", "_").replace(" ", "_")
        if isinstance(value, dict)
        else value
    ),
)
def test_renderer_with_settings_gives_the_golden_bytes(
    name: str, role: str, flags: dict[str, str], golden: Golden, request: pytest.FixtureRequest
) -> None:
    roster = build_roster(
        build_role("chief", 1, first=1),
        build_role("worker", [0, 2, 3], first=11, minimum=2, absent=(1,)),
        build_role("ps", 2, first=21),
        build_role("evaluator", 1, first=31),
        build_role("launcher", 1, first=41),
    )
    index = 2 if role == "worker" else 0
    rendered = BUILT_IN[name](see_gang(roster, role, index, **flags), build_options(**flags))
    golden(f"rendezvous/mixed-{request.node.callspec.id}.txt", describe(rendered))


@pytest.mark.parametrize("family", [IPV4, IPV6])
def test_environment_files_of_two_workers_are_the_golden_bytes(family: str, golden: Golden) -> None:
    rendering = render_all(see_gang(build_gang(2, family), index=1), build_options())
    golden(f"rendezvous/env-{family}.sh", rendering.files["env.sh"].content)
    golden(f"rendezvous/env-{family}.env", rendering.files[".env"].content)
