"""The kubelet: runs the Pods of one machine as local processes.

It is a client of the API server like any other, and so it also serves a real one, as the node
``local``. ``kubelet`` watches Pods and starts a worker for each; ``pod`` runs one Pod,
``container`` one container, ``volumes`` makes directories, ``probes`` asks a container for its
health.
``container.launcher``, ``container.rootfs`` and ``syscalls`` run in the containers' own processes,
before their commands; this module and ``container/__init__`` import nothing, so that these start
fast.

No image is pulled, no resource limit is enforced and no security context beyond users, groups and
capabilities is applied: a Pod's command runs on the host, as the user who runs the kubelet.
"""
