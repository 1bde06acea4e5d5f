cimport cython

from aiokafka_lead._core.connection.in_flight cimport InFlightLedger
from aiokafka_lead._wire.framing cimport decode_answer, encode_request, peek_correlation_id


@cython.final
cdef class Connection:
    cdef readonly int node_id
    cdef readonly object endpoint
    cdef readonly str label
    cdef readonly object versions
    cdef readonly bint ready
    cdef public str stage
    cdef public object patience_s
    cdef public double opening_s
    cdef readonly object closed_by
    cdef readonly object session
    cdef readonly double retire_at
    cdef readonly double used_at
    cdef readonly list on_successor
    cdef public bint handing_over
    cdef dict _versions
    cdef object _settings
    cdef Py_ssize_t _max_in_flight
    cdef object _owner
    cdef object _transport
    cdef InFlightLedger _ledger
    cdef object _unsent
    cdef double _unsent_deadline
    cdef bint _muted
    cdef double _muted_until
    cdef bint _welcome
    cdef bint _refused
    cdef bint _stepping_down
    cdef object _turns
    cdef object _wake
    cdef double _wake_at
    cdef object _crash
    cdef object __weakref__

    cpdef bint can_send(self) except -1
    cdef _send(
        self, object request, int version, double timeout_s, object on_done, bint expect_response, bint raw=*
    )
    cdef _finish(self, object on_done, object response, object error)
