cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.producer.batches cimport PartitionQueue, ProducerBatch

cdef int64_t SEQUENCE_MAX
cdef int EPOCH_MAX
cdef int _NO_LEADER
cdef int _NO_SEQUENCE


cpdef int64_t sequence_after(int64_t sequence, int64_t count) except -1
cpdef bint is_later(int64_t sequence, int64_t than) except -1
cdef bint _has_sent(PartitionQueue queue)


cdef class Sequencing:
    cpdef bint blocks(self, PartitionQueue queue, ProducerBatch batch, int leader_id) except -1
    cpdef double waits_until(self, PartitionQueue queue) except -1
    cpdef sending(self, ProducerBatch batch)
    cpdef acknowledged(self, ProducerBatch batch, int node_id)
    cpdef bint restart_if_due(self, PartitionQueue queue) except -1


cdef class PlainSequencing(Sequencing):
    cdef bint _one_at_a_time

    cpdef bint blocks(self, PartitionQueue queue, ProducerBatch batch, int leader_id) except -1


cdef class IdempotentSequencing(Sequencing):
    cdef readonly int64_t producer_id
    cdef readonly int producer_epoch
    cdef readonly Py_ssize_t restarts

    cpdef bint blocks(self, PartitionQueue queue, ProducerBatch batch, int leader_id) except -1
    cpdef bint is_new_to(self, PartitionQueue queue) except -1
    @cython.locals(queue=PartitionQueue)
    cpdef sending(self, ProducerBatch batch)
    @cython.locals(queue=PartitionQueue, following=int64_t)
    cpdef acknowledged(self, ProducerBatch batch, int node_id)
    cpdef bint restart_if_due(self, PartitionQueue queue) except -1
