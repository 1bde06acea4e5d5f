cimport cython

from aiokafka_lead._core.producer.delivery cimport Delivery
from aiokafka_lead._cpython cimport calling, references
from aiokafka_lead._io.producer.intake cimport Intake


cdef class SendCall


@cython.final
cdef class QuickSend:
    cdef Intake _intake
    cdef object _otherwise
    cdef SendCall _spare
    cdef size_t _slot


@cython.final
cdef class SendCall:
    cdef QuickSend _method
    cdef object _topic
    cdef object _value
    cdef object _key
    cdef object _partition
    cdef object _timestamp_ms
    cdef object _headers
    cdef bint _fresh
    cdef object _coroutine

    @cython.locals(delivery=Delivery)
    cdef Delivery _begin(self)
    cdef object _other(self)


@cython.locals(call=SendCall)
cdef SendCall _new_call(
    QuickSend method, object topic, object value, object key, object partition, object timestamp_ms, object headers
)

@cython.locals(call=SendCall, delivery=Delivery)
cdef object _first_step(object one)

@cython.locals(call=SendCall)
cdef object _rest(object one)

@cython.locals(first=QuickSend)
cdef object _change_type()


@cython.final
cdef class QuickSendNowait:
    cdef Intake _intake
    cdef object _otherwise
