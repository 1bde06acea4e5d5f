cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._cpython cimport clock
from aiokafka_lead._records.encoder cimport BatchBuilder as NativeBuilder


@cython.final
cdef class BatchRecordMetadata:
    cdef readonly Py_ssize_t offset
    cdef readonly Py_ssize_t size
    cdef readonly int64_t timestamp


@cython.final
cdef class BatchBuilder:
    cdef readonly NativeBuilder builder
    cdef object _key_serializer
    cdef object _value_serializer
    cdef bint _closed

    cpdef bint closed(self) except -1
    cpdef Py_ssize_t size(self) except -1
    cpdef Py_ssize_t record_count(self) except -1

    @cython.locals(builder=NativeBuilder, before=Py_ssize_t, index=Py_ssize_t, metadata=BatchRecordMetadata)
    cdef BatchRecordMetadata _append(self, int64_t time_ms, object key, object value, object headers)
