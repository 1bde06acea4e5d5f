cimport cython

from aiokafka_lead._core.producer.batches cimport PartitionQueue, TopicBuffer


@cython.final
cdef class NodeAvailability:
    cdef double _timeout_s
    cdef dict _blocked_since

    cpdef taking(self, int node_id)
    cpdef bint available(self, int node_id, double now) except -1


@cython.final
cdef class StickyChooser:
    cdef bint _adaptive
    cdef NodeAvailability _nodes
    cdef object _rng
    cdef object _rack
    cdef Py_ssize_t _batch_size
    cdef double _linger_s

    cpdef bint had_share(self, TopicBuffer topic, Py_ssize_t size, double now) except -1

    @cython.locals(partition=int, leader_id=int)
    cpdef int choose(self, TopicBuffer topic, object snapshot, double now) except -1
    @cython.locals(queue=PartitionQueue)
    cdef _survey(self, TopicBuffer topic)
    cdef list _near(self, TopicBuffer topic, object snapshot)
    cdef bint _usable(self, int leader_id, double now) except -1
    cdef bint _accepted(self, TopicBuffer topic, int partition) except -1


@cython.locals(queue=PartitionQueue)
cdef Py_ssize_t _depth(TopicBuffer topic, int partition) except -1
cdef int _leader(object snapshot, TopicBuffer topic, int partition) except? -2
