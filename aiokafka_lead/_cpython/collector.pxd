# The garbage collector for the compiled modules; collector.py has the same for plain Python.


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_COLLECTOR
    #define aiokafka_lead_untrack(kept) ((void) (kept))
    #else
    #define aiokafka_lead_untrack(kept) PyObject_GC_UnTrack(kept)
    #endif
    """
    void untrack "aiokafka_lead_untrack" (object kept) noexcept
