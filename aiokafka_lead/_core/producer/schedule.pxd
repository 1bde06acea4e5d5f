cimport cython

from aiokafka_lead._core.producer.batches cimport PartitionQueue, ProducerBatch
from aiokafka_lead._core.producer.buffer_memory cimport BufferMemory
from aiokafka_lead._core.producer.idempotence cimport Sequencing

cdef Py_ssize_t LINGERING_PARTITIONS
cdef int _NO_LEADER


@cython.final
cdef class Schedule:
    cdef readonly dict ready
    cdef readonly dict leaderless
    cdef public Py_ssize_t flushes
    cdef readonly double delivery_timeout_s
    cdef double _linger_s
    cdef BufferMemory _memory
    cdef Sequencing _sequencing
    cdef object _notify
    cdef object _lingering
    cdef list _timers
    cdef list _expiries
    cdef Py_ssize_t _timer_count

    cdef bint _hurried(self) except -1
    cpdef opened(self, ProducerBatch batch, double now)

    @cython.locals(queue=PartitionQueue)
    cpdef hurry(self, double now)

    @cython.locals(queue=PartitionQueue, at=double)
    cpdef poll(self, double now)

    @cython.locals(node_id=int)
    cpdef evaluate(self, PartitionQueue queue, double now)

    @cython.locals(batch=ProducerBatch)
    cpdef ProducerBatch first_unsent(self, PartitionQueue queue)

    @cython.locals(batch=ProducerBatch, leader_id=int, retry_at=double, turn_at=double)
    cpdef int sendable_to(self, PartitionQueue queue, double now) except? -2

    @cython.locals(batch=ProducerBatch, queue=PartitionQueue)
    cpdef bint may_linger(self, int node_id, double now) except -1

    @cython.locals(queue=PartitionQueue)
    cpdef PartitionQueue pop(self, int node_id)
    cpdef put_back(self, PartitionQueue queue, int node_id)
    cdef _put_in(self, PartitionQueue queue, int node_id)
    cdef _take_out(self, PartitionQueue queue)
    cdef _wake_at(self, PartitionQueue queue, double at)
    cdef _expire_at(self, PartitionQueue queue, double at)
