cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._core.share.acquired cimport Acquired
from aiokafka_lead._cpython cimport naming, slots
from aiokafka_lead._records.record cimport ConsumerRecord, AnyRecord


@cython.final
cdef class ShareRecord(AnyRecord):
    cdef readonly int32_t delivery_count
    cdef readonly object _exchange
    cdef readonly Acquired _acquired
    cdef readonly Py_ssize_t _index

    cdef ShareRecord _copy(self)
    cpdef bint _is_open(self) except -1


@cython.locals(
    record=ShareRecord, ranges=list, made=list, at=Py_ssize_t, base=Py_ssize_t, index=Py_ssize_t, first=int64_t,
    last=int64_t, count=int32_t, offset=int64_t,
)
cpdef tuple place(list found, Acquired acquired, Py_ssize_t passed)
