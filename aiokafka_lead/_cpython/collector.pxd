# Access to the garbage collector for compiled modules. collector.py is the plain Python version.


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_COLLECTOR
    #define aiokafka_lead_untrack(kept) ((void) (kept))
    #else
    #define aiokafka_lead_untrack(kept) PyObject_GC_UnTrack(kept)
    #endif
    """
    void untrack "aiokafka_lead_untrack" (object kept) noexcept
