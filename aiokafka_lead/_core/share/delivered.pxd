cimport cython

from aiokafka_lead._core.share.acquired cimport Acquired
from aiokafka_lead._core.share.record cimport ShareRecord

cdef int _ACCEPT


@cython.final
cdef class Delivered:
    cdef readonly bint implicit
    cdef list _handed
    cdef ShareRecord _given
    cdef dict _outcomes

    @cython.locals(given=ShareRecord)
    cpdef bint go_on(self, ShareRecord record) except -1
