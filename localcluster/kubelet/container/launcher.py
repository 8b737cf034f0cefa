"""Runs one container's command: private root, own process tree, log, exit code.

``forkserver`` forks one for each container::

    kubelet -- fork server -- supervisor -- init -- command

The *supervisor* is the fork server's child: it writes the log and ends with the command's code.
The *init* is process 1 of the container's PID namespace: it reaps orphans, and no process of the
container outlives it. Without a PID namespace, it adopts orphans and kills them one by one. Signals
to the supervisor: SIGTERM goes to the command; SIGUSR2, which it also gets when the fork server
dies, kills the whole tree.

Single-threaded and standard library only, because it changes namespaces and must start fast. The
log's form is that of the container runtime interface: ``TIME STREAM F|P TEXT``.
"""
# ruff: noqa: PTH103, PTH123, PTH208  pathlib starts slowly

import errno
import marshal
import os
import resource
import select
import signal
import time
from typing import NoReturn

from localcluster import syscalls
from localcluster.kubelet.container import rootfs

KILL_SIGNAL = signal.SIGUSR2
STOP_SIGNAL = signal.SIGTERM
WAITED = {signal.SIGCHLD, STOP_SIGNAL, KILL_SIGNAL}
"""The signals of a supervisor. They are blocked when it is forked, so that none is lost."""
_KILLED = 128 + signal.SIGKILL
_LINE_LIMIT = 16 * 1024
_CHUNK = 64 * 1024
# The exit code of a failure before the command runs; the report has its text.
START_FAILED = 128
# The exit codes of a shell that cannot run a program.
NOT_EXECUTABLE, NOT_FOUND = 126, 127


class Spec:
    """The command and its surroundings; ``process.LaunchSpec`` documents the fields."""

    argv: "list[str]"
    env: "dict[str, str]"
    cwd: str
    private_root: bool
    pid_namespace: bool
    user_namespace: bool
    network: "list[tuple[int, int]]"
    network_flags: "list[int]"
    log: "str | None"
    root: str
    hostname: str
    mounts: "list[tuple[str, str, bool]]"
    join: int
    keeps_input: bool
    terminal: bool
    parent: int
    report: int
    open_files: int
    user: int
    group: int
    groups: "list[int] | None"
    dropped_capabilities: "list[int]"
    no_new_privileges: bool
    read_only_root: bool
    passages: "list[str]"
    is_executing = False

    def __init__(self, fields: "dict[str, object]", parent: int, descriptors: "list[int]") -> None:
        """Take the fields and the open files: the report, then the Pod's network."""
        self.__dict__.update(fields)
        self.parent = parent
        self.report, *network = descriptors
        self.network = list(zip(network, self.network_flags, strict=True))


def run_supervisor(parent: int, descriptors: "list[int]") -> NoReturn:
    """Run as the supervisor of a container, in a process that was forked for it.

    Args:
        parent: the process that forked it.
        descriptors: the spec in a file, stdin, stdout, stderr, the report, and the namespaces that
            make the Pod's network. ``exec`` closes them.
    """
    memory, *streams = descriptors[:4]
    with os.fdopen(memory, "rb") as file:
        spec = Spec(marshal.load(file), parent, descriptors[4:])  # noqa: S302 our own kubelet's
    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    for stream in streams:
        os.close(stream)
    try:
        code = _supervise(spec)
    except OSError as error:
        report(spec.report, {"error": _describe(spec, error)})
        code = START_FAILED
    os._exit(code)


def report(descriptor: int, message: "dict[str, object]") -> None:
    """Report the start to the kubelet: ``pid`` of the init, or ``error``.

    An ``error`` of the program itself comes with the ``code`` of a shell.
    """
    # A kubelet that no longer reads has ended, or has given this container up.
    try:
        os.write(descriptor, marshal.dumps(message))
    except OSError:
        return


def _describe(spec: Spec, error: "OSError | ValueError") -> str:
    if isinstance(error, ValueError):
        # An argument, a variable or the directory contains a NUL.
        return str(error)
    command = spec.argv[0]
    if spec.is_executing and error.errno == errno.ENOENT and "/" not in command:
        return f'exec: "{command}": executable file not found in $PATH'
    if spec.is_executing:
        return f'exec: "{command}": {error.strerror}'
    return str(error.strerror or error)


# --- Supervisor -----------------------------------------------------------------------------------


def _supervise(spec: Spec) -> int:
    if spec.join:
        _join_container(spec)
    else:
        _make_namespaces(spec)
    # Not earlier: the kernel clears the setting at the entry into a user namespace.
    syscalls.set_parent_death_signal(KILL_SIGNAL)
    if os.getppid() != spec.parent:
        return _KILLED
    output, errors = _open_streams(spec)
    child = os.fork()
    if child == 0:
        _run_init(spec, output[1], errors[1])
    report(spec.report, {"pid": child})
    os.close(spec.report)
    for descriptor in {output[1], errors[1]} - {-1}:
        os.close(descriptor)
    return _attend(child, spec.log, output[0], errors[0])


def _open_streams(spec: Spec) -> "tuple[tuple[int, int], tuple[int, int]]":
    """Open pipes for stdout and stderr if there is a log; else both are inherited."""
    if spec.log is None:
        return (-1, -1), (-1, -1)
    return os.pipe(), os.pipe()


def _make_namespaces(spec: Spec) -> None:
    flags = syscalls.CLONE_NEWPID if spec.pid_namespace else 0
    if spec.network:
        _join(spec.network)
    elif spec.user_namespace:
        syscalls.make_user_namespace(flags)
        return
    if flags:
        syscalls.unshare(flags)


def _join(namespaces: "list[tuple[int, int]]") -> None:
    """Enter namespaces by their open files."""
    for descriptor, flag in namespaces:
        syscalls.set_namespace(descriptor, flag)
        os.close(descriptor)


def _join_container(spec: Spec) -> None:
    """Enter the namespaces of a running container, for a probe or a hook."""
    for descriptor, _ in spec.network:
        os.close(descriptor)
    names = []
    if spec.user_namespace:
        names.append(("user", syscalls.CLONE_NEWUSER))
    if spec.pid_namespace:
        names.append(("pid", syscalls.CLONE_NEWPID))
    if spec.network:
        names.append(("net", syscalls.CLONE_NEWNET))
    if spec.private_root:
        names += [("uts", syscalls.CLONE_NEWUTS), ("mnt", syscalls.CLONE_NEWNS)]
    _join(
        [
            (os.open(f"/proc/{spec.join}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), flag)
            for name, flag in names
        ]
    )


def _attend(child: int, log: "str | None", output: int, errors: int) -> int:
    """Copy the container's output to its log until it has ended; return its exit code."""
    wakeup = open_wakeup(WAITED)
    streams = _LogStreams(log, {output: b"stdout", errors: b"stderr"}) if log is not None else None
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    for descriptor in (output, errors):
        if streams is not None:
            poll.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != wakeup:
                if streams is not None and not streams.copy(descriptor):
                    poll.unregister(descriptor)
                continue
            code = _handle_signals(child, os.read(wakeup, 4096))
            if code is not None:
                if streams is not None:
                    streams.drain()
                return code


def open_wakeup(numbers: "set[signal.Signals]") -> int:
    """Unblock signals, and return a descriptor from which their numbers are read.

    Signals that came while they were blocked are included.
    """
    wakeup, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in numbers:
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return wakeup


def close_wakeup(wakeup: int) -> None:
    """Close the descriptor that ``open_wakeup`` returned; the signals stay as they are."""
    os.close(signal.set_wakeup_fd(-1))
    os.close(wakeup)


def _handle_signals(child: int, numbers: bytes) -> "int | None":
    """Pass signals on; return the exit code if the container has ended."""
    for number in {STOP_SIGNAL, KILL_SIGNAL} & {signal.Signals(n) for n in numbers}:
        os.kill(child, number)
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class _LogStreams:
    """Copies lines of stdout and stderr into one log file."""

    def __init__(self, path: str, names: "dict[int, bytes]") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._log = os.open(path, flags, 0o644)
        self._names = names
        self._rests = dict.fromkeys(names, b"")
        for descriptor in names:
            os.set_blocking(descriptor, False)

    def copy(self, descriptor: int) -> bool:
        """Copy the available bytes; return False at the end of the stream."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        *lines, rest = (self._rests[descriptor] + chunk).split(b"\n")
        prefix = self._prefix(descriptor)
        entries = [prefix + b"F " + line + b"\n" for line in lines]
        while len(rest) >= _LINE_LIMIT or (rest and not chunk):
            entries.append(prefix + b"P " + rest[:_LINE_LIMIT] + b"\n")
            rest = rest[_LINE_LIMIT:]
        self._rests[descriptor] = rest
        _write_all(self._log, b"".join(entries))
        return bool(chunk)

    def drain(self) -> None:
        """Copy the rest of the pipes, even if an escaped child holds them open."""
        for descriptor in self._names:
            while select.select([descriptor], [], [], 0)[0] and self.copy(descriptor):
                pass
            rest, self._rests[descriptor] = self._rests[descriptor], b""
            if rest:
                _write_all(self._log, self._prefix(descriptor) + b"P " + rest + b"\n")

    def _prefix(self, descriptor: int) -> bytes:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)  # noqa: TID251 own program
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{stamp}.{nanoseconds:09d}Z ".encode() + self._names[descriptor] + b" "


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        # If the disk is full, the log is lost, and the training goes on.
        try:
            view = view[os.write(descriptor, view) :]
        except OSError:
            return


# --- Init -----------------------------------------------------------------------------------------


def _run_init(spec: Spec, output: int, errors: int) -> None:
    """Run as the container's first process; never returns."""
    try:
        syscalls.set_parent_death_signal(KILL_SIGNAL)
        syscalls.adopt_orphans()
        _enter(spec)
        child = os.fork()
        if child == 0:
            _run_command(spec, output, errors)
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os._exit(_reap(child, alone=spec.pid_namespace and not spec.join))
    except (OSError, ValueError) as error:
        report(spec.report, {"error": _describe(spec, error)})
    os._exit(START_FAILED)


def _enter(spec: Spec) -> None:
    if spec.join:
        return
    if spec.private_root:
        # In a new mount namespace, because pivot_root moves all processes of its mount namespace.
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS)
        syscalls.set_hostname(spec.hostname)
        rootfs.enter_private_root(
            spec.root,
            spec.mounts,
            [spec.cwd] if spec.cwd != "/" else [],
            fresh_proc=spec.pid_namespace,
            fresh_sys=bool(spec.network),
            passages=spec.passages,
            read_only=spec.read_only_root,
        )


def _run_command(spec: Spec, output: int, errors: int) -> None:
    """Become the container's command. This never returns, but it may raise OSError."""
    os.setsid()
    if spec.terminal:
        _take_terminal()
    elif not spec.keeps_input:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    if output >= 0:
        os.dup2(output, 1)
        os.dup2(errors, 2)
    syscalls.set_parent_death_signal(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    # Python ignores these, and an ignored signal would stay ignored.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.umask(0o022)
    try:
        _limit_open_files(spec.open_files)
        if not spec.join:
            os.makedirs(spec.cwd, exist_ok=True)
        os.chdir(spec.cwd)
        _drop_privileges(spec)
        spec.is_executing = True
        # exec closes the report, which shows the kubelet that the command runs.
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606 no shell is wanted
    except (OSError, ValueError) as error:
        message: dict[str, object] = {"error": _describe(spec, error)}
        if spec.is_executing and isinstance(error, OSError):
            message["code"] = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
        report(spec.report, message)
    os._exit(START_FAILED)


def _take_terminal() -> None:
    """Make stdin the terminal of this session, so that Ctrl-C reaches the command."""
    import fcntl  # noqa: PLC0415 only here, for the start-up time
    import termios  # noqa: PLC0415 the same

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _limit_open_files(soft: int) -> None:
    """Set the soft limit of the user, because the kubelet raised its own limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _drop_privileges(spec: Spec) -> None:
    """Become the user that the Pod requests, and drop the capabilities that it drops."""
    if spec.dropped_capabilities:
        syscalls.drop_capabilities(spec.dropped_capabilities)
    if spec.user >= 0:
        for stream in (1, 2):
            # A program that opens /dev/stdout by name needs its user as the owner.
            os.fchown(stream, spec.user, spec.group)
    if spec.groups is not None:
        os.setgroups(spec.groups)
        os.setresgid(spec.group, spec.group, spec.group)
    if spec.user >= 0:
        os.setresuid(spec.user, spec.user, spec.user)
    if spec.groups is not None:
        # A change of user or group clears the setting.
        syscalls.set_parent_death_signal(signal.SIGKILL)
    if spec.no_new_privileges:
        syscalls.forbid_new_privileges()


def _reap(child: int, *, alone: bool) -> int:
    """Reap ended processes until the command ends; kill the others, and return its exit code."""
    while True:
        number = signal.sigwait(WAITED)
        if number == KILL_SIGNAL:
            return _finish(_KILLED, alone=alone)
        if number == STOP_SIGNAL:
            os.kill(child, STOP_SIGNAL)
            continue
        code = _reap_ended(child)
        if code is not None:
            return _finish(code, alone=alone)


def _reap_ended(child: int) -> "int | None":
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code


def _finish(code: int, *, alone: bool) -> int:
    """Kill the remaining processes; in a PID namespace, the kernel does it."""
    while not alone:
        for orphan in _list_children():
            os.kill(orphan, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    return code


def _list_children() -> "list[int]":
    own, children = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            if parent == own:
                children.append(int(name))
    return children
