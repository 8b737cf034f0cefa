"""The process kubelet: runs the Pods of one machine as local processes.

A client of the API server like any other, so it also serves a real one as the node ``local``.
Called by ``localcluster.cluster``. Pure modules (``expansion``, ``environment``, ``volumes``,
``status``, ``restarts``, ``path_replacement``, ``admission``, ``images``) decide; ``pod_worker``,
``container`` and ``kubelet`` act. ``launcher``, ``rootfs`` and ``syscalls`` run in the containers'
own processes, before their commands. This module imports nothing, for the launcher's sake.

It is a development and test engine: no image is pulled, no resource limit enforced and no security
context applied; a Pod's command runs on the host, as the user who runs the kubelet.
"""
