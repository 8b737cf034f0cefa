"""The way to a Kubernetes API server: on aiohttp.

Called by the controller, the local cluster's kubelet and the command line. The agents inside Pods
do not come here: ``framework.agent`` is theirs, on the standard library alone.

``resources`` what can be asked for · ``config`` where the server is and who we are ·
``client`` one request · ``listwatch`` a list followed for ever · ``errors`` what can go wrong.
"""
