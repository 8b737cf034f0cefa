"""``framework get``, ``describe``, ``tree`` and ``events``: what is on the cluster."""
