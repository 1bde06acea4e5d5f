cimport cython

from aiokafka_lead._records.decoder cimport RecordIndex


@cython.final
cdef class Columns:
    cdef readonly RecordIndex index
    cdef list _offsets
    cdef list _timestamps_ms
    cdef list _keys
    cdef list _values
    cdef list _headers
