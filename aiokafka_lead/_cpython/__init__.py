"""Optimisations that depend on CPython's internals: memory, reference counts, the garbage collector, type slots.

Each module consists of two files. The ``.py`` file is plain Python. Compiled modules ``cimport`` the functions of the
same names from the ``.pxd``. The environment variable ``AIOKAFKA_LEAD_WITHOUT`` (``slots,tuples``, or ``all``) names
modules whose internals a build must not use. Their C code then does the same as plain Python. The behavior is the same
in all three cases, which ``tests/cpython`` verifies.

The list shows the savings of each module, in nanoseconds of CPU time on Python 3.11 (``python -m benchmarks tricks``).
To remove a module, delete its two files and make the changes described here.

``awaiting``
    ``await`` of an available result takes 20 instead of 43. Delete the calls of `awaiting.shorten_await`, because the
    ``__await__`` of these types does the same.
``calling``
    An awaited ``send`` that ends in its first step takes 51 instead of 512. Delete the calls of `calling.call_by` and
    `calling.run_by`, because ``__call__`` and ``send`` do the same. Delete `_io.producer.send_methods` as well, which
    then has no purpose.
``clock``
    Saves 18 for each reading of a clock or of the thread's id, which happens three times for each record. Call `time`
    and `threading` instead.
``collector``
    A tuple that is kept takes 42 instead of 57, because the garbage collector does not track it. Delete the calls of
    `collector.untrack`, and ``TYPES`` in setup.py, which hides whole types.
``naming``
    Saves no time. Compiled public classes in private modules show the module from which users import them. Delete the
    calls of `naming.show_in`.
``raw``
    Saves 4 for each buffer, and 5 for each item of an array that is not cleared before it is filled. The numbers are
    plain C. Replace direct access to memory (``of_bytes``, ``of_bytearray``, ``of_memoryview``, ``items.data``) by the
    buffer protocol, as in ``memory``.
``references``
    All work for a sent record takes 6,740 instead of 7,040 instructions, because the object of a call of ``send`` is
    used again if no other object refers to it. Delete the code under `references.has_no_other_owner`.
``running``
    Saves 70 for each sent record, because a running event loop is recognised without a call. It has no ``.pxd`` and no
    switch. For event loops without asyncio's state, a method is called. Let `_io.loop.loop_thread` return None instead.
``slots``
    Three attributes of a record that Python code reads take 11 instead of 34. A record that is copied and dropped takes
    23 instead of 226. Delete the call of `slots.expose`, and let `ConsumerRecord._copy` call ``with_content``.
``tuples``
    A `RecordMetadata` takes 26 instead of 98. Delete the call of `tuples.recycle`, and call the class.

Without the module, the client's work for a record of 100 bytes on Apache Kafka increases by about this much. The
numbers are computed from the list above and docs/benchmarks.md (0.76 us for an awaited ``send``, 0.38 us by ``async
for``, 0.28 us by ``getmany``).

==============  ==========================================================================================
``calling``     60 % of a ``send``
``slots``       70 % of a record by ``getmany``
``running``     9 % of a ``send``, 14 % of ``send_nowait``
``tuples``      9 % of a ``send`` whose delivery is awaited
``clock``       7 % of a ``send``
``awaiting``    6 % of a record by ``async for``, 3 % of an awaited delivery
``raw``         5 % of a record that is read
``collector``   5 % of a record with headers, and more with each object that the application keeps
``references``  5 % of a ``send``, by instructions
==============  ==========================================================================================

Without the GIL, ``references`` always returns False, and ``slots`` and ``tuples`` keep no memory.
"""
