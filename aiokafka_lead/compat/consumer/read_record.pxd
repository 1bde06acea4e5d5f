cimport cython

from aiokafka_lead._cpython cimport collector
from aiokafka_lead._records.record cimport ConsumerRecord as NativeRecord


@cython.final
cdef class ReadRecord:
    cdef NativeRecord _native
    cdef object _key
    cdef object _value
    cdef dict _attributes


@cython.final
cdef class Converter:
    cdef object _key_deserializer
    cdef object _value_deserializer
    cdef bint _plain

    @cython.locals(record=ReadRecord)
    cpdef object one(self, NativeRecord native)
    cpdef list many(self, list natives)


cdef dict _attributes(ReadRecord record)

cdef object _size(object content)

@cython.locals(record=ReadRecord)
cdef ReadRecord _read(NativeRecord native, object key, object value)
