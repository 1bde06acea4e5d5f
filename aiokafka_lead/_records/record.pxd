cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._cpython cimport naming, slots


cdef class AnyRecord:
    cdef readonly object topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly object timestamp_type
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers
    cdef readonly object leader_epoch

    cdef AnyRecord _copy(self)


@cython.final
cdef class ConsumerRecord(AnyRecord):
    cdef ConsumerRecord _copy(self)
    cdef tuple _fields(self)
    cdef bint _equals(self, ConsumerRecord other) except -1
