"""The network of the local cluster's Pods: addresses, names, and the way to the API server.

Called by ``localcluster.kubelet`` and ``localcluster.cluster``. ``pod_network`` is what they see;
behind it are ``loopback`` and ``namespaces``. ``hub`` and ``netlink`` run in a process of their
own. This module imports nothing, for that process's sake.
"""
