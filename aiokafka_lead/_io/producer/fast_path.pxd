cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._core.producer.accumulator cimport Accumulator
from aiokafka_lead._core.producer.batches cimport TopicBuffer
from aiokafka_lead._core.producer.delivery cimport Delivery
from aiokafka_lead._cpython cimport clock


@cython.final
cdef class FastPath:
    cdef public bint usable
    cdef Accumulator _accumulator
    cdef dict _topics
    cdef object _put_first
    cdef object _topic
    cdef TopicBuffer _buffer
    cdef unsigned long _thread
    cdef object _identity
    cdef object _probe
    cdef object _expected
    cdef dict _known
    cdef str _key

    @cython.locals(number=int32_t, time_ms=int64_t, buffer=TopicBuffer)
    cpdef Delivery append(
        self, object topic, object value, object key, object partition, object timestamp_ms, object headers
    )

    @cython.locals(delivery=Delivery)
    cdef Delivery _put(
        self,
        TopicBuffer buffer,
        int64_t timestamp_ms,
        bytes key,
        bytes value,
        int32_t partition,
        object headers,
    )

    @cython.locals(accumulator=Accumulator, now=double)
    cpdef Delivery open_and_append(
        self,
        TopicBuffer buffer,
        int64_t timestamp_ms,
        bytes key,
        bytes value,
        int32_t partition,
        object headers,
    )

    @cython.locals(buffer=TopicBuffer)
    cpdef Py_ssize_t append_values(
        self, str topic, int64_t timestamp_ms, object values, Py_ssize_t start, int32_t partition, object into
    ) except -1

    @cython.locals(buffer=TopicBuffer, delivery=Delivery, at=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t append_pairs(
        self, str topic, int64_t timestamp_ms, list values, list keys, Py_ssize_t start, int32_t partition, object into
    ) except -1

    @cython.locals(buffer=TopicBuffer)
    cdef TopicBuffer _buffer_with(self, str topic, int32_t partition)

    cdef bint _here(self) except -1
