"""The worker: where user code runs.

``pool``, ``forked``, ``spawned``, ``outcome`` and ``tracing`` are the server's side of the pipe.  ``zygote``,
``isolation``, ``job``, ``loading``, ``construct`` and ``render`` are loaded by the user's interpreter and use the
standard library, torch and fxlib only. ``protocol`` is what both sides speak.
"""
