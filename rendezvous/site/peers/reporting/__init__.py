"""Progress, from training code to the agent of its Pod.

``callbacks`` of a training library call ``steps``, which writes ``progress_page``; the agent reads
that page.
"""
