"""Commands that change a Framework or wait for it: start, stop, scale, remove, retry, delete, wait.

What a command changes is computed by pure modules (``changes``, ``scaling``, ``retrying``); when it
has taken effect, by ``effects`` and ``conditions``. ``apply`` sends, ``watching`` follows.
"""
