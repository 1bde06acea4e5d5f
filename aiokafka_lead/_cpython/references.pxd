# Reference counts for compiled modules. references.py is the plain Python version.
#
# The caller's variable and one attribute or item are two references. Without the GIL, the count says nothing about the
# references of other threads.


cdef extern from *:
    """
    #if defined(Py_GIL_DISABLED) || defined(AIOKAFKA_LEAD_WITHOUT_REFERENCES)
    #define AIOKAFKA_LEAD_COUNTED 0
    #else
    #define AIOKAFKA_LEAD_COUNTED 1
    #endif

    #define aiokafka_lead_has_no_other_owner(kept) (AIOKAFKA_LEAD_COUNTED && Py_REFCNT(kept) == 2)
    """
    bint COUNTED "AIOKAFKA_LEAD_COUNTED"
    bint has_no_other_owner "aiokafka_lead_has_no_other_owner" (object kept) noexcept
