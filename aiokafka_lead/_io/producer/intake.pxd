cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._core.producer.accumulator cimport Accumulator
from aiokafka_lead._core.producer.batches cimport Record, TopicBuffer
from aiokafka_lead._core.producer.delivery cimport Delivery
from aiokafka_lead._core.unsampled cimport Unsampled
from aiokafka_lead._cpython cimport clock
from aiokafka_lead._io.producer.waiting cimport Lines
from aiokafka_lead._io.producer.sender cimport Sender


@cython.final
cdef class Intake:
    cdef public bint usable
    cdef public object admission
    cdef public Unsampled unsampled
    cdef Accumulator _accumulator
    cdef dict _topics
    cdef Sender _sender
    cdef Lines _lines
    cdef object _metadata
    cdef bint _lingers
    cdef double _max_block_ms
    cdef object _topic
    cdef TopicBuffer _buffer
    cdef unsigned long _thread
    cdef object _identity
    cdef object _probe
    cdef object _expected
    cdef dict _known
    cdef str _key

    @cython.locals(number=int32_t, time_ms=int64_t, buffer=TopicBuffer, carried=tuple)
    cpdef Delivery append(
        self, object topic, object value, object key, object partition, object timestamp_ms, object headers
    )

    @cython.locals(delivery=Delivery)
    cdef Delivery _append(
        self,
        TopicBuffer buffer,
        bytes value,
        bytes key,
        int32_t partition,
        int64_t timestamp_ms,
        object headers,
    )

    @cython.locals(accumulator=Accumulator, now=double)
    cdef Delivery _put(self, TopicBuffer buffer, Record record, bint with_others)

    @cython.locals(buffer=TopicBuffer)
    cdef Py_ssize_t _append_plain(
        self,
        str topic,
        list values,
        list keys,
        Py_ssize_t start,
        int32_t partition,
        int64_t timestamp_ms,
        object headers,
        object into,
    ) except -1

    @cython.locals(accumulator=Accumulator, delivery=Delivery, record=Record, at=Py_ssize_t, count=Py_ssize_t,
                   value=bytes, key=bytes)
    cdef Py_ssize_t _append_each(
        self,
        TopicBuffer buffer,
        list values,
        list keys,
        Py_ssize_t start,
        int32_t partition,
        int64_t timestamp_ms,
        object headers,
        object into,
    ) except -1

    @cython.locals(buffer=TopicBuffer)
    cdef TopicBuffer _buffer_with(self, str topic, int32_t partition)

    @cython.locals(buffer=TopicBuffer)
    cpdef Delivery try_now(self, Record record, bint with_others=*)

    cdef bint _here(self) except -1
