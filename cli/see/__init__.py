"""``framework get``, ``describe``, ``tree`` and ``events``: print objects of the cluster."""
