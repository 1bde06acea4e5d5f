cimport cython
from libc.stdint cimport int32_t

from aiokafka_lead._core.producer.accumulator cimport Accumulator
from aiokafka_lead._core.producer.batches cimport ProducerBatch, Record, TopicBuffer
from aiokafka_lead._core.producer.delivery cimport Delivery
from aiokafka_lead._core.producer.produce cimport (
    produce_request, produce_version, read_answers, read_offsets, takes_long_to_build,
)
from aiokafka_lead._core.producer.answers cimport BatchAnswers
from aiokafka_lead._io.connection.connection cimport Connection
from aiokafka_lead._io.producer.waiting cimport Lines

cdef Py_ssize_t _REQUESTS_AT_A_TIME
cdef Py_ssize_t _BATCHES_AT_A_TIME


@cython.final
cdef class Sender:
    cdef readonly Accumulator accumulator
    cdef readonly object lookups
    cdef readonly object flushing
    cdef readonly Lines lines
    cdef BatchAnswers _answers
    cdef object _config
    cdef int32_t _timeout_ms
    cdef object _brokers
    cdef object _metadata
    cdef object _spawn
    cdef object _builds
    cdef object _seat
    cdef object _pacing
    cdef Py_ssize_t _filled_bytes
    cdef object _wake
    cdef object _ids
    cdef object _parking
    cdef bint _working
    cdef bint _over
    cdef double _sleeps_until
    cdef object _blocked
    cdef object _answered
    cdef object _log

    cpdef _notify(self)
    cdef _ring(self)

    cpdef Delivery put_first(self, TopicBuffer topic, Record record, double now)
    cdef _go_on(self)

    cdef _work_at_once(self)

    @cython.locals(accumulator=Accumulator, now=double, more=bint)
    cdef bint _work(self) except -1

    @cython.locals(accumulator=Accumulator, connection=Connection, batches=list, requests=Py_ssize_t, sent=Py_ssize_t,
                   building=Py_ssize_t, ahead=Py_ssize_t, room=bint)
    cdef bint _serve(self, int node_id, double now) except -1

    @cython.locals(batch=ProducerBatch)
    cpdef double turn(self) except -1
    cdef _submit(self, Connection connection, list batches)
    cdef _on_response(self, object sent, object response, double now)
