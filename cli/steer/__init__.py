"""Commands that change a Framework, from ``start`` to ``delete``, or wait for it.

Pure modules compute the change (``changes``, ``scaling``, ``retrying``, ``suspending``), and judge
whether it has taken effect (``effects``, ``conditions``). ``apply`` sends the change, and
``watching`` waits for its effect.
"""
