"""The kubelet: runs the Pods of one machine as local processes.

It is an ordinary client of the API server. ``kubelet`` watches Pods and starts a worker for each;
``pod`` runs one Pod, ``container`` one container, ``volumes`` creates directories, ``probes``
checks the health of a container.
``container.forkserver`` is a program of its own, which forks a process for each container;
``container.launcher``, ``container.rootfs`` and ``syscalls`` run there, before the command. This
module and ``container/__init__`` import nothing, so that it starts fast.

No image is pulled, no resource limit is enforced and no security context beyond users, groups and
capabilities is applied: a Pod's command runs on the host, as the user who runs the kubelet.
"""
