cimport cython

from aiokafka_lead._core.producer.batches cimport PartitionQueue


@cython.final
cdef class Expiry:
    cdef readonly double timeout_s
    cdef list _heap
    cdef Py_ssize_t _count

    cpdef watch(self, PartitionQueue queue, double created_at)
    cdef _push(self, PartitionQueue queue, double at)
