cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._cpython cimport awaiting, naming
from aiokafka_lead._core.producer.outcome cimport BatchOutcome


@cython.final
cdef class Delivery:
    cdef BatchOutcome _outcome
    cdef Py_ssize_t _index
    cdef int64_t _timestamp_ms

    @cython.locals(outcome=BatchOutcome)
    cdef BatchOutcome _locate(self)
    cdef object _result(self, BatchOutcome outcome)


@cython.locals(delivery=Delivery)
cdef int _is_done(object one) except -1

@cython.locals(delivery=Delivery)
cdef object _take(object one)

@cython.locals(delivery=Delivery)
cpdef Delivery new_delivery(BatchOutcome outcome, Py_ssize_t index, int64_t timestamp_ms)


@cython.final
cdef class RecordRun:
    cdef BatchOutcome outcome
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef int64_t timestamp_ms


@cython.locals(delivery=Delivery, run=RecordRun, outcome=BatchOutcome, part=BatchOutcome, index=Py_ssize_t)
cdef BatchOutcome _pending(object entry)

@cython.locals(delivery=Delivery, run=RecordRun, part=BatchOutcome, index=Py_ssize_t)
cdef int _collect(object entry, list results) except -1

@cython.locals(delivery=Delivery, run=RecordRun)
cdef object _park_of(object entry)

@cython.locals(delivery=Delivery, run=RecordRun)
cdef Delivery _first_of(object entry)

@cython.locals(delivery=Delivery, run=RecordRun, count=Py_ssize_t, index=Py_ssize_t)
cdef object _failure(object entry)
