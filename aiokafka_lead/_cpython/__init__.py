"""Optimisations that depend on CPython's internals: memory, reference counts, the garbage collector, type slots.

Each module is a pair: the ``.py`` is plain Python; compiled modules get the functions of the same names from the
``.pxd`` with ``cimport``. The environment variable ``AIOKAFKA_LEAD_WITHOUT`` (``slots,tuples``, or ``all``) names
modules that a build omits: their C code then does the same as plain Python, without using internals. Behaviour is the
same; ``tests/cpython`` compares the three.

This list has the gain of each module, in nanoseconds of CPU time on Python 3.11 (``python -m benchmarks tricks``), and
the steps to delete it: delete its two files, and make the changes described here.

``awaiting``
    20 instead of 43 for ``await`` of an available result. Delete the calls of `awaiting.shorten_await`: the
    ``__await__`` of these types does the same.
``calling``
    51 instead of 512 for an awaited ``send`` that ends at its first step. Delete the calls of
    `calling.call_by` and `calling.run_by`: ``__call__`` and ``send`` do the same. Delete
    `_io.producer.send_methods` as well, which is then useless.
``clock``
    18 for each reading of a clock or of the thread's identity, three for each record. Call `time` and `threading`.
``collector``
    42 instead of 57 for a tuple that is kept, because the garbage collector does not track it. Delete the calls of
    `collector.untrack`, and ``TYPES`` in setup.py, which hides types as a whole.
``naming``
    Saves no time: compiled public classes in private modules show the module from which users import them. Delete the
    calls of `naming.show_in`.
``raw``
    4 for each buffer, 5 for each item of an array that is not cleared before it is filled. The numbers are plain C.
    Replace direct access to memory (``of_bytes``, ``of_bytearray``, ``of_memoryview``, ``items.data``) with the buffer
    protocol, as in ``memory``.
``references``
    6,740 instead of 7,040 instructions for all work for a sent record, since the object of a call of ``send`` is reused
    if no other object refers to it. Delete the code under `references.has_no_other_owner`.
``running``
    70 for each sent record: a running event loop is recognised without a call. It has no ``.pxd`` and no switch. For
    event loops without asyncio's state, a method is called. Have `_io.loop.loop_thread` return None.
``slots``
    11 instead of 34 for three attributes of a record, read by Python code; 23 instead of 226 for a record that is
    copied and dropped. Delete the call of `slots.expose`, and have `ConsumerRecord._copy` call ``with_content``.
``tuples``
    26 instead of 98 for a `RecordMetadata`. Delete the call of `tuples.recycle`, and call the class.

Without each, the client's work for a record of 100 bytes on Apache Kafka grows by about this much, computed from these
figures and docs/benchmarks.md (0.76 us for an awaited ``send``, 0.38 us by ``async for``, 0.28 us by
``getmany``):

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
