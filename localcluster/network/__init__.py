"""The network of the local cluster's Pods: addresses, names, and the way to the API server.

``pod_network`` is the interface; ``loopback`` and ``namespaces`` implement it; ``choice`` chooses
one of them. ``hub`` and ``netlink`` run in a process of their own, so this module imports nothing.
"""
