"""What leans on how CPython works inside: memory, reference counts, the garbage collector, the slots of types.

Each module is a pair: the ``.py`` is plain Python; compiled modules take the functions of the same names from the
``.pxd``, by ``cimport``. A build leaves those out that the environment variable ``AIOKAFKA_LEAD_WITHOUT`` names
(``slots,tuples``, or ``all``): then their C code does what plain Python does, and nothing inside is touched. Behaviour
is the same; ``tests/cpython`` compares the three.

What each gains, in nanoseconds of CPU time on Python 3.11 (``python -m benchmarks tricks``), and how to delete it for
good: its two files, and what is said here.

``awaiting``
    20 instead of 43 for ``await`` of a result that is there. Delete the calls of `awaiting.shorten_await`: the
    ``__await__`` of these types does the same.
``calling``
    51 instead of 512 for a ``send`` that is awaited and is over at its first step. Delete the calls of
    `calling.call_by` and `calling.run_by`: ``__call__`` and ``send`` do the same. Of more use is to delete
    `_io.producer.send_methods` as well, which gains nothing then.
``clock``
    18 for each look at a clock or at the thread's identity, of which a record takes three. Call `time` and `threading`.
``collector``
    42 instead of 57 for a tuple that is kept, since the garbage collector does not look at it. Delete the calls of
    `collector.untrack`, and ``TYPES`` in setup.py, which hides types as a whole.
``raw``
    4 for each buffer, 5 for each item of an array that need not be cleared before it is filled. The numbers are plain
    C. Where memory is taken from (``of_bytes``, ``of_bytearray``, ``of_memoryview``, ``items.data``), ask the buffer
    protocol, as ``memory`` does.
``references``
    20,000 instead of 29,000 for a frame of 1 MiB, whose memory serves again where nobody has the last one any more.
    Delete what stands under `references.has_no_other_owner`.
``running``
    20 for each record that is sent: whether its event loop runs is known without a call. It has no ``.pxd``, no switch:
    an event loop without asyncio's note is asked. Have `_io.loop.loop_thread` return None.
``slots``
    11 instead of 34 for three attributes of a record, read by Python code; 23 instead of 226 for a record that is
    copied and dropped. Delete the call of `slots.expose`, and have `ConsumerRecord._copy` call ``with_content``.
``tuples``
    26 instead of 98 for a `RecordMetadata`. Delete the call of `tuples.recycle`, and call the class.

Without the GIL, ``references`` says no to everything, and memory is not kept by ``slots`` and ``tuples``.
"""
