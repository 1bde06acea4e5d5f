cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.producer.accumulator cimport Accumulator
from aiokafka_lead._core.producer.batches cimport PartitionQueue, ProducerBatch
from aiokafka_lead._core.producer.counters cimport ProducerCounters
from aiokafka_lead._core.producer.idempotence cimport Sequencing
from aiokafka_lead._core.producer.schedule cimport Schedule
from aiokafka_lead._core.producer.transactional cimport TransactionalSequencing


cdef class BatchAnswers:
    cdef Accumulator _accumulator
    cdef ProducerCounters _counters
    cdef Schedule _schedule
    cdef Sequencing _sequencing
    cdef object _retry
    cdef bint _idempotent
    cdef TransactionalSequencing _transactional
    cdef object _retries
    cdef object _explain
    cdef object _log

    @cython.locals(queue=PartitionQueue)
    cpdef acknowledged(self, ProducerBatch batch, int node_id, int64_t base_offset, int64_t log_append_time_ms, double now)
    @cython.locals(queue=PartitionQueue)
    cdef _acknowledge(self, ProducerBatch batch, int node_id, int64_t base_offset, int64_t log_append_time_ms, double now)
    @cython.locals(queue=PartitionQueue, epoch=int, by_leader=bint, ending=bint, lags=bint)
    cdef _requeue(
        self,
        ProducerBatch batch,
        int node_id,
        object error,
        double now,
        bint out_of_line,
        int64_t log_start_offset,
        bint tells_leaders,
    )
    @cython.locals(queue=PartitionQueue)
    cdef _relocate(self, ProducerBatch batch, double now)
    @cython.locals(queue=PartitionQueue)
    cdef _remove(self, ProducerBatch batch)
    @cython.locals(batch=ProducerBatch)
    cpdef all_acknowledged(self, object batches, int node_id, list offsets, double now)
    @cython.locals(other=PartitionQueue)
    cdef _go_on(self, PartitionQueue queue, double now)
