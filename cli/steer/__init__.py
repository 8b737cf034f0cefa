"""Commands that change a Framework, from ``start`` to ``delete``, or wait for it.

What a command changes is computed by pure modules (``changes``, ``scaling``, ``retrying``,
``suspending``); when it has taken effect, by ``effects`` and ``conditions``. ``apply`` sends,
``watching`` follows.
"""
