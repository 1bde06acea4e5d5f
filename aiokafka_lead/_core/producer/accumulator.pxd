cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.producer.append cimport PartitionQueue, ProducerBatch, TopicBuffer
from aiokafka_lead._core.producer.buffer_memory cimport BufferMemory
from aiokafka_lead._core.producer.delivery cimport BatchOutcome, Delivery, new_delivery
from aiokafka_lead._core.producer.schedule cimport Schedule
from aiokafka_lead._records.encoder cimport BatchBuilder

cdef _seal(ProducerBatch batch)


cdef class Accumulator:
    cdef readonly object counters
    cdef readonly object snapshot
    cdef readonly dict topics
    cdef readonly object identity
    cdef readonly object sequencing
    cdef readonly Py_ssize_t batch_size
    cdef readonly BufferMemory memory
    cdef readonly Schedule schedule
    cdef readonly object nodes
    cdef readonly object retry
    cdef readonly object expiry
    cdef public Py_ssize_t unseen_bytes
    cdef readonly Py_ssize_t pending
    cdef object _chooser
    cdef bint _ignore_keys
    cdef object _compression
    cdef object _compression_level
    cdef Py_ssize_t _max_request_size
    cdef object _park
    cdef object _partitioner
    cdef object _cluster_id
    cdef int64_t _ordinal
    cdef dict _incomplete
    cdef list _flushes

    @cython.locals(sticky=PartitionQueue)
    cdef PartitionQueue _queue_for(self, TopicBuffer topic, int partition, object key, double now)
    @cython.locals(topic=TopicBuffer, batch=ProducerBatch)
    cdef ProducerBatch _open(self, PartitionQueue queue, BatchBuilder builder, int64_t ordinal, double now)
    @cython.locals(topic=TopicBuffer, queue=PartitionQueue)
    cdef _fill(self, ProducerBatch batch, double now)
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch, size=Py_ssize_t)
    cpdef list drain(self, int node_id, double now)
    @cython.locals(queue=PartitionQueue, leader_epoch=int)
    cdef _send(self, ProducerBatch batch, int node_id, double now)
    cdef bint _renew_leader(self, PartitionQueue queue) except -1
    cpdef started(self, int64_t ordinal, Py_ssize_t batches=*)
    cpdef finish(self, int64_t ordinal)
