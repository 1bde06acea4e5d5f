cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.producer.batches cimport PartitionQueue, ProducerBatch
from aiokafka_lead._core.producer.idempotence cimport IdempotentSequencing, is_later, sequence_after

cdef int _NO_SEQUENCE
cdef double _TOUCHES_APART_S
cdef list _NONE


cdef class TransactionalSequencing(IdempotentSequencing):
    cdef readonly int64_t transaction
    cdef readonly bint v2
    cdef public bint failed
    cdef public bint lenient
    cdef readonly bint held
    cdef readonly bint written
    cdef readonly bint gap
    cdef readonly dict wanted
    cdef public object on_wanted
    cdef public object on_failure
    cdef dict _touching
    cdef dict _waiting
    cdef double _touch_at

    @cython.locals(batch=ProducerBatch)
    cpdef requested(self, int node_id, object batches, double now)
    cpdef opened(self, PartitionQueue queue)
    cpdef list answered(self, PartitionQueue queue)

    cpdef bint blocks(self, PartitionQueue queue, ProducerBatch batch, int leader_id) except -1
    cpdef double waits_until(self, PartitionQueue queue) except -1
    cpdef bint is_new_to(self, PartitionQueue queue) except -1
    @cython.locals(queue=PartitionQueue, following=int64_t)
    cpdef acknowledged(self, ProducerBatch batch, int node_id)
    cpdef bint restart_if_due(self, PartitionQueue queue) except -1
