cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._cpython cimport tuples


@cython.final
cdef class BatchOutcome:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly object park
    cdef readonly bint done
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_time_ms
    cdef readonly object error
    cdef readonly object record_errors
    cdef readonly list parts
    cdef public object waiter
    cdef public object callbacks
    cdef int64_t _time_ms
    cdef object _time

    cdef int _settle(self) except -1
    cdef int _wake(self) except -1

    cpdef object record(self, Py_ssize_t index, int64_t timestamp_ms)

    @cython.locals(offset=int64_t, time_ms=int64_t)
    cpdef object metadata(self, Py_ssize_t index, int64_t timestamp_ms)

    @cython.locals(index=Py_ssize_t)
    cpdef list records(self, Py_ssize_t first, Py_ssize_t count, int64_t timestamp_ms)
