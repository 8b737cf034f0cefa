"""The settings of the agent, each defined once. Pure.

``option`` defines how a setting is given. ``BEHAVIOUR`` lists the settings for the behaviour of the
agent, ``RENDERING`` those for the rendered files.
"""

import re
from typing import Any, Dict, List, Mapping

from framework.api import constants
from rendezvous.settings import values
from rendezvous.settings.option import Option, OptionsError, Problem, list_options, parse_each
from rendezvous.settings.progresspattern import parse_pattern
from rendezvous.settings.values import RolePort

NOTIFY = "notify"
RESTART = "restart"
ACKNOWLEDGE = "acknowledge"
WAIT = "wait"
END_AUTO = "auto"
END_NATIVE = "native"
END_WRAPPER = "wrapper"
END_SHARED = "shared"
END_POD = "pod"

_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")
_ROLE_PORT_ENV = re.compile(r"FB_([A-Z0-9]{1,63})_PORT\Z")


# fmt: off
class _Rendering:
    """The settings for rendering."""

    formats = Option("auto", values.parse_formats, "auto, or tf_config,pytorch,...",
        "formats to render; auto: all that fit this gang, others are logged with reasons",
        by_annotation=True)
    plugins = Option("", values.parse_plugins, "MODULE:FUNCTION,...",
        "your own renderers, if they have no entry point")
    directory = Option(constants.WORKING_DIR, values.parse_directory, "/ABSOLUTE/PATH",
        "mount path of the volume in the training container", constants.WORKING_DIR_ENV)
    roles = Option("", values.parse_roles, "trainer=worker,server=ps",
        "function of each role: chief, master, worker, ps, evaluator, launcher or none",
        by_annotation=True)
    coordinator = Option("", values.parse_role, "ROLE",
        "the role with the first ranks; the store is on its first member",
        by_annotation=True)
    ports = Option("2222", values.parse_ports, "2222 or worker=2222,ps=2223 or worker=2222+index",
        "the port of each member; also FB_<ROLE>_PORT", by_annotation=True)
    slots = Option("1", values.parse_slots, "8 or worker=8,launcher=1",
        "processes per member; 0 removes a role from host files (the default of a launcher)",
        by_annotation=True)
    ip_family = Option("auto", values.build_choice("auto", "ipv4", "ipv6"), "auto, ipv4 or ipv6",
        "address of a dual-stack Pod; auto: its first, or IPv4 if the consumer reads only IPv4",
        by_annotation=True)
    host_style = Option("address", values.build_choice("address", "name"), "address or name",
        "the hosts in host files; names need DNS, the hosts block or the ssh config",
        by_annotation=True)
    tf_mode = Option("dense", values.build_choice("dense", "sparse"), "dense or sparse",
        "TF_CONFIG with all workers, or with this worker only (parameter servers, elastic)",
        by_annotation=True)
    tf_master_type = Option("chief", values.build_choice("chief", "master"), "chief or master",
        "name of a master in TF_CONFIG; master is for TensorFlow 1", by_annotation=True)
    tf_environment = Option("", values.build_choice("", "cloud"), "empty or cloud",
        'adds "environment", which TensorFlow <= 1.3 needs', by_annotation=True)
    tf_rpc_layer = Option("", values.build_choice("", "grpc"), "empty or grpc",
        'adds "rpc_layer" to TF_CONFIG', by_annotation=True)
    torch_mode = Option("static", values.build_choice("static", "elastic"), "static or elastic",
        "members of torchrun: fixed, or elastic", by_annotation=True)
    torch_backend = Option("c10d", values.build_choice("c10d", "framework", "etcd", "etcd-v2"),
        "c10d, framework, etcd or etcd-v2",
        "rendezvous of elastic torchrun; framework: the members of the current generation")
    torch_endpoint = Option("", values.parse_endpoint, "HOST:PORT",
        "endpoint of the store; required for etcd, default: the coordinator")
    torch_master_port = Option("29500", values.parse_plain_port, "PORT",
        "the port of the process group's store", by_annotation=True)
    torch_rdzv_port = Option("29400", values.parse_plain_port, "PORT",
        "the port of elastic torchrun's store", by_annotation=True)
    torch_rdzv_conf = Option("join_timeout=600,last_call_timeout=30,read_timeout=60",
        values.parse_conf, "KEY=VALUE,...", "further settings of elastic torchrun")
    torch_nodes = Option("", values.parse_nodes, "MIN:MAX",
        "bounds of elastic torchrun; default: minimum and wanted number of the roster",
        by_annotation=True)
    torch_nproc = Option("", values.parse_processes, "N, auto, gpu, xpu or cpu",
        "processes per node of torchrun; default: the slots", by_annotation=True)
    torch_max_restarts = Option("100", values.build_number(0, 1000000), "N",
        "maximum of restarts of elastic torchrun; each departure of a peer counts as one",
        by_annotation=True)
    jax_coordinator_port = Option("8476", values.parse_plain_port, "PORT",
        "the port of JAX's coordinator", by_annotation=True)
    ssh_server_port = Option("22", values.parse_plain_port, "PORT",
        "the port of the members' ssh servers")
    ssh_user = Option("", values.parse_user, "NAME", "the login of the members' ssh servers")
    ssh_identity_file = Option("", values.parse_path, "/ABSOLUTE/PATH",
        "path of the private key in the container")


class _Behaviour:
    """The settings for the behaviour of the agent."""

    timeout_seconds = Option("600", values.parse_seconds, "SECONDS",
        "limit for render and run to wait for the gang, for watch to see a process; 0: none",
        "FB_TIMEOUT_SEC", by_annotation=True)
    debounce_seconds = Option("2", values.parse_seconds, "SECONDS",
        "minimum time between two generations; the first change is applied at once",
        "FB_DEBOUNCE_SEC", by_annotation=True)
    on_change = Option(NOTIFY, values.build_choice(NOTIFY, RESTART), "notify or restart",
        "what run does with its command when the gang changes", "FB_ON_CHANGE", by_annotation=True)
    signal = Option("", values.parse_signal, "HUP, USR1, ...",
        "send this signal: run to its command, watch to FB_NOTIFY_PROCESS", "FB_NOTIFY_SIGNAL")
    process = Option("", values.parse_process, "NAME",
        "the program that gets the signal (shareProcessNamespace)", "FB_NOTIFY_PROCESS")
    command = Option("", values.parse_command, "SHELL COMMAND",
        "run this with the new variables, and the change as JSON on its input", "FB_NOTIFY_COMMAND")
    command_timeout_seconds = Option("60", values.parse_seconds, "SECONDS",
        "timeout, after which the command is killed",
        "FB_NOTIFY_COMMAND_TIMEOUT_SEC", by_annotation=True)
    url = Option("", values.parse_url, "http://HOST:PORT/PATH",
        "POST the change as JSON to this URL", "FB_NOTIFY_URL")
    listen = Option("", values.parse_listen, "PORT or 127.0.0.1:PORT",
        "serve long-polls: GET /changes?after=NUMBER", "FB_LISTEN")
    stop_grace_seconds = Option("30", values.parse_seconds, "SECONDS",
        "from SIGTERM to SIGKILL when run restarts or ends its command", "FB_STOP_GRACE_SEC",
        by_annotation=True)
    end = Option(END_AUTO,
        values.build_choice(END_AUTO, END_NATIVE, END_WRAPPER, END_SHARED, END_POD),
        "auto, native, wrapper, shared or pod", "how watch detects when to end",
        "FB_SIDECAR_END", by_annotation=True)
    container = Option("", values.parse_container, "NAME",
        "the name of the container in which watch runs", "FB_CONTAINER_NAME", by_annotation=True)
    on_leaving = Option(ACKNOWLEDGE, values.build_choice(ACKNOWLEDGE, WAIT), "acknowledge or wait",
        "what a Pod that leaves does once notified; wait: it keeps its process until the deadline",
        "FB_ON_LEAVING", by_annotation=True)
    acknowledge = Option("auto", values.parse_flag, "auto or off",
        "acknowledge applied generations to the controller, if this is permitted",
        "FB_ACKNOWLEDGE", by_annotation=True)
    scalers = Option("off", values.parse_scalers, "off or run",
        "carry out the requests of ScaleIn and ScaleOut, and run their scripts: for launchers",
        "FB_SCALERS")
    reach = Option("", values.parse_ports, "2222 or worker=2222,ps=2223",
        "add a later member only when it accepts connections on this port", "FB_REACH",
        by_annotation=True)
    reach_running = Option("", values.parse_role_names, "ROLE,...",
        "add later members of these roles only when all Pods of the role run", by_annotation=True)
    reach_seconds = Option("60", values.parse_seconds, "SECONDS",
        "after this time the member is added in any case",
        "FB_REACH_TIMEOUT_SEC", by_annotation=True)
    progress_seconds = Option("0", values.parse_seconds, "SECONDS",
        "run ends the command of a rank that is behind when no rank has ended a step for this "
        "time; 0: never",
        "FB_PROGRESS_TIMEOUT_SEC", by_annotation=True)
    first_progress_seconds = Option("1800", values.parse_seconds, "SECONDS",
        "the same until the first step of a rank",
        "FB_FIRST_PROGRESS_TIMEOUT_SEC", by_annotation=True)
    progress_status = Option("auto", values.build_choice("auto", "on", "off"), "auto, on or off",
        "report how far the training is to the status of the Framework; auto: if hangs are looked "
        "for", "FB_PROGRESS_STATUS", by_annotation=True)
    progress_file = Option("", values.parse_path, "/ABSOLUTE/PATH",
        "read the step from the last line of this file, if no process calls peers.progress")
    progress_pattern = Option("", parse_pattern, "'step {step}/{total}'",
        "read the step from lines of the output with this text: {step} and {total} are numbers, a "
        "space is any number of blanks")
    rsh = Option("off", values.build_choice("off", "on"), "on or off",
        "run starts commands for the other members: remote commands, in place of ssh", "FB_RSH")
    rsh_server_port = Option("29601", values.parse_plain_port, "PORT",
        "the port of remote commands, the same in all members", "FB_RSH_SERVER_PORT")
    rsh_timeout_seconds = Option("60", values.parse_seconds, "SECONDS",
        "how long rsh tries to start its command", "FB_RSH_TIMEOUT_SEC")
# fmt: on


class Options(_Rendering, _Behaviour):
    """The settings. An empty text means that the user has not chosen."""

    def __init__(self, **values: Any) -> None:
        """Take these values, and the default of every other setting."""
        defaults = {option.name: option.parse(option.default) for option in OPTIONS}
        self.__dict__.update({**defaults, **values})

    def __eq__(self, other: object) -> bool:
        """Return whether all values are equal."""
        return isinstance(other, Options) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # some values are dictionaries


RENDERING = list_options(_Rendering)
BEHAVIOUR = list_options(_Behaviour)
OPTIONS = RENDERING + BEHAVIOUR
# The names of the settings that an annotation of the Pod may give.
BY_ANNOTATION = frozenset(option.word for option in OPTIONS if option.by_annotation)


def parse_options(
    env: Mapping[str, str],
    flags: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> Options:
    """Parse all settings. Flags are keyed by the option's name; an empty variable is not set.

    Raises:
        OptionsError: Values are bad; the error lists all of them.
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
            problems.append(Problem(name, text, str(e), "PORT or PORT+index"))
    return ports
