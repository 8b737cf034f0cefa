"""What users may choose: each setting defined once, from flag, env or annotation. Pure.

``option`` says how a setting is given. ``BEHAVIOUR`` lists how the agent behaves,
``RENDERING`` what it renders.
"""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from framework.api import constants
from rendezvous.settings import values
from rendezvous.settings.kinds import RoleKind
from rendezvous.settings.option import Option, OptionsError, Problem, parse_each
from rendezvous.settings.values import RolePort

NOTIFY = "notify"
RESTART = "restart"
END_AUTO = "auto"
END_NATIVE = "native"
END_WRAPPER = "wrapper"
END_SHARED = "shared"
END_POD = "pod"

_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
_ROLE_PORT_ENV = re.compile(r"FB_([A-Z0-9]{1,63})_PORT\Z")


class Options(NamedTuple):
    """What users may choose; ``OPTIONS`` says what each means. Empty text: not chosen."""

    formats: Optional[Tuple[str, ...]] = None
    plugins: Tuple[str, ...] = ()
    directory: str = constants.WORKING_DIR
    roles: Mapping[str, RoleKind] = {}
    coordinator: str = ""
    ports: Mapping[str, RolePort] = {"": RolePort(2222)}
    slots: Mapping[str, int] = {"": 1}
    ip_family: str = "auto"
    host_style: str = "address"
    tf_mode: str = "dense"
    tf_master_type: str = "chief"
    tf_environment: str = ""
    tf_rpc_layer: str = ""
    torch_mode: str = "static"
    torch_backend: str = "c10d"
    torch_endpoint: str = ""
    torch_master_port: int = 29500
    torch_rdzv_port: int = 29400
    torch_rdzv_conf: str = "join_timeout=600,last_call_timeout=30,read_timeout=60"
    torch_nodes: Optional[Tuple[int, int]] = None
    torch_nproc: str = ""
    torch_max_restarts: int = 100
    jax_coordinator_port: int = 8476
    ssh_server_port: int = 22
    ssh_user: str = ""
    ssh_identity_file: str = ""
    timeout_seconds: float = 600.0
    debounce_seconds: float = 2.0
    on_change: str = NOTIFY
    signal: int = 0
    process: str = ""
    command: str = ""
    command_timeout_seconds: float = 60.0
    url: str = ""
    listen: Optional[Tuple[str, int]] = None
    stop_grace_seconds: float = 30.0
    end: str = END_AUTO
    container: str = ""
    acknowledge: bool = True
    reach: Mapping[str, RolePort] = {}
    reach_seconds: float = 60.0


BEHAVIOUR = (
    Option("timeout_seconds", "600", values.parse_seconds, "SECONDS",
           "how long render and run wait for the gang, and watch for those it serves; 0: no end",
           "FB_TIMEOUT_SEC"),
    Option("debounce_seconds", "2", values.parse_seconds, "SECONDS",
           "the shortest time between two generations; the first change is shown at once",
           "FB_DEBOUNCE_SEC"),
    Option("on_change", NOTIFY, values.build_choice(NOTIFY, RESTART),
           "notify or restart", "what run does to its command when the gang changes",
           "FB_ON_CHANGE"),
    Option("signal", "", values.parse_signal, "HUP, USR1, ...",
           "send this signal: run to its command, watch to FB_NOTIFY_PROCESS", "FB_NOTIFY_SIGNAL"),
    Option("process", "", values.parse_process, "NAME",
           "the program that gets the signal (shareProcessNamespace)", "FB_NOTIFY_PROCESS"),
    Option("command", "", values.parse_command, "SHELL COMMAND",
           "run this with the new variables, and the change as JSON on its input",
           "FB_NOTIFY_COMMAND"),
    Option("command_timeout_seconds", "60", values.parse_seconds,
           "SECONDS", "after this the command is killed", "FB_NOTIFY_COMMAND_TIMEOUT_SEC"),
    Option("url", "", values.parse_url, "http://HOST:PORT/PATH",
           "POST the change as JSON to this URL", "FB_NOTIFY_URL"),
    Option("listen", "", values.parse_listen, "PORT or 127.0.0.1:PORT",
           "serve long-polls: GET /changes?after=NUMBER", "FB_LISTEN"),
    Option("stop_grace_seconds", "30", values.parse_seconds, "SECONDS",
           "from SIGTERM to SIGKILL when run restarts or ends its command", "FB_STOP_GRACE_SEC"),
    Option("end", END_AUTO,
           values.build_choice(END_AUTO, END_NATIVE, END_WRAPPER, END_SHARED, END_POD),
           "auto, native, wrapper, shared or pod", "how watch learns that it is no longer needed",
           "FB_SIDECAR_END"),
    Option("container", "", values.parse_container, "NAME",
           "the name of the container that watch runs in", "FB_CONTAINER_NAME"),
    Option("acknowledge", "auto", values.parse_flag, "auto or off",
           "tell the controller which generation was applied, where that is permitted",
           "FB_ACKNOWLEDGE"),
    Option("reach", "", values.parse_ports, "2222 or worker=2222,ps=2223",
           "show a member that comes later only when it answers on this port", "FB_REACH"),
    Option("reach_seconds", "60", values.parse_seconds, "SECONDS",
           "after this it is shown all the same", "FB_REACH_TIMEOUT_SEC"),
)  # fmt: skip

RENDERING = (
    Option("formats", "auto", values.parse_formats, "auto, or tf_config,pytorch,...",
           "what to render; auto: whatever fits this gang, the rest is left out with the reason"),
    Option("plugins", "", values.parse_plugins, "MODULE:FUNCTION,...",
           "renderers of your own that no entry point names"),
    Option("directory", constants.WORKING_DIR, values.parse_directory, "/ABSOLUTE/PATH",
           "where the training container finds the volume", constants.WORKING_DIR_ENV),
    Option("roles", "", values.parse_roles, "trainer=worker,server=ps",
           "what each role is: chief, master, worker, ps, evaluator, launcher or none"),
    Option("coordinator", "", values.parse_role, "ROLE",
           "the role that comes first in the ranks, so that its first member holds the store"),
    Option("ports", "2222", values.parse_ports, "2222 or worker=2222,ps=2223 or worker=2222+index",
           "the port each member serves on; also FB_<ROLE>_PORT"),
    Option("slots", "1", values.parse_slots, "8 or worker=8,launcher=1",
           "processes per member; 0 keeps a role out of host files (the default of a launcher)"),
    Option("ip_family", "auto", values.build_choice("auto", "ipv4", "ipv6"), "auto, ipv4 or ipv6",
           "which address of a dual-stack Pod; auto: its first, or IPv4 where only that is read"),
    Option("host_style", "address", values.build_choice("address", "name"), "address or name",
           "what stands in host files; names need DNS, the hosts block or the ssh config"),
    Option("tf_mode", "dense", values.build_choice("dense", "sparse"), "dense or sparse",
           "TF_CONFIG with every worker, or with the own one only (parameter servers, elastic)"),
    Option("tf_master_type", "chief", values.build_choice("chief", "master"), "chief or master",
           "what a master is called in TF_CONFIG; master is TensorFlow 1"),
    Option("tf_environment", "", values.build_choice("", "cloud"), "empty or cloud",
           'adds "environment": TensorFlow <= 1.3 wants it'),
    Option("tf_rpc_layer", "", values.build_choice("", "grpc"), "empty or grpc",
           'adds "rpc_layer" to TF_CONFIG'),
    Option("torch_mode", "static", values.build_choice("static", "elastic"), "static or elastic",
           "how torchrun finds its peers"),
    Option("torch_backend", "c10d", values.build_choice("c10d", "framework", "etcd", "etcd-v2"),
           "c10d, framework, etcd or etcd-v2",
           "how elastic torchrun's nodes find together; framework: by the generation in force"),
    Option("torch_endpoint", "", values.parse_endpoint, "HOST:PORT",
           "the store's endpoint; needed for etcd, else the coordinator's"),
    Option("torch_master_port", "29500", values.parse_plain_port, "PORT",
           "the port of the process group's store"),
    Option("torch_rdzv_port", "29400", values.parse_plain_port, "PORT",
           "the port of elastic torchrun's store"),
    Option("torch_rdzv_conf", "join_timeout=600,last_call_timeout=30,read_timeout=60",
           values.parse_conf, "KEY=VALUE,...", "further settings of elastic torchrun"),
    Option("torch_nodes", "", values.parse_nodes, "MIN:MAX",
           "bounds of elastic torchrun; else the roster's minimum and wanted number"),
    Option("torch_nproc", "", values.parse_processes, "N, auto, gpu, xpu or cpu",
           "processes per node of torchrun; else the slots"),
    Option("torch_max_restarts", "100", values.build_number(0, 1000000), "N",
           "how often elastic torchrun restarts its workers; each departure of a peer costs one"),
    Option("jax_coordinator_port", "8476", values.parse_plain_port, "PORT",
           "the port of JAX's coordinator"),
    Option("ssh_server_port", "22", values.parse_plain_port, "PORT",
           "the port of the members' ssh servers"),
    Option("ssh_user", "", values.parse_user, "NAME", "the login of the members' ssh servers"),
    Option("ssh_identity_file", "", values.parse_path, "/ABSOLUTE/PATH",
           "the private key, as the container finds it"),
)  # fmt: skip

OPTIONS = (*RENDERING, *BEHAVIOUR)


def parse_options(
    env: Mapping[str, str],
    flags: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> Options:
    """Parse all settings; flags are keyed by the option's name, an empty env value is not given.

    Raises:
        OptionsError: Any are bad; it lists all of them.
    """
    parsed, problems = parse_each(OPTIONS, env, flags, annotations)
    ports = _parse_role_ports(env, problems)
    if problems:
        raise OptionsError(tuple(problems))
    default_port = {"": Options().ports[""]}
    parsed["ports"] = {**default_port, **ports, **parsed["ports"]}
    return Options(**parsed)


def _parse_role_ports(env: Mapping[str, str], problems: List[Problem]) -> Dict[str, RolePort]:
    """Parse FB_<ROLE>_PORT, the variables that injector.sh of the Go original reads, too."""
    ports: Dict[str, RolePort] = {}
    for name, text in env.items():
        match = _ROLE_PORT_ENV.match(name)
        # Kubernetes sets such a variable for a Service "fb-worker": a URL, not a setting.
        if match is None or not text or _SERVICE_LINK.match(text):
            continue
        try:
            ports[match.group(1).lower()] = values.parse_port(text)
        except ValueError as e:
            problems.append(Problem(name, text, str(e), "write PORT or PORT+index"))
    return ports
