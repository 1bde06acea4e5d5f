cimport cython

from aiokafka_lead._core.producer.append cimport ProducerBatch

cpdef bint has_free_retry(ProducerBatch batch, int leader_epoch)


@cython.final
cdef class RetryPolicy:
    cdef object _backoff
    cdef object _catch_up

    cpdef sent(self, ProducerBatch batch, int leader_epoch)
