cimport cython

from aiokafka_lead._core.producer.delivery cimport Delivery
from aiokafka_lead._core.producer.outcome cimport BatchOutcome
from aiokafka_lead._cpython cimport awaiting


@cython.final
cdef class RecordFuture:
    cdef Delivery _delivery
    cdef object _batch
    cdef bint _noack
    cdef bint _cancelled
    cdef list _callbacks
    cdef object _loop
    cdef public bint _asyncio_future_blocking

    cpdef bint done(self) except -1
    @cython.locals(delivery=Delivery, outcome=BatchOutcome, kind=cython.int)
    cpdef object result(self)
    cdef int _check(self, str otherwise=*) except -1
    cdef object _source(self)


@cython.final
cdef class _Waiting:
    cdef readonly object fn
    cdef readonly RecordFuture future
    cdef readonly object context


@cython.locals(future=RecordFuture)
cdef int _is_done(object one) except -1

@cython.locals(future=RecordFuture)
cdef object _take(object one)

@cython.locals(future=RecordFuture)
cpdef RecordFuture new_record_future(Delivery delivery, bint noack, object loop)

cdef object _where(object topic, object partition)
