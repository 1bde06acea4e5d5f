# Reference counts for the compiled modules; references.py has the same for plain Python.
#
# The caller's variable and one attribute or item make two. Without the GIL a count says nothing about other threads.


cdef extern from *:
    """
    static inline int aiokafka_lead_has_no_other_owner(PyObject *kept) {
    #if defined(Py_GIL_DISABLED) || defined(AIOKAFKA_LEAD_WITHOUT_REFERENCES)
        return 0;
    #else
        return Py_REFCNT(kept) == 2;
    #endif
    }
    """
    bint has_no_other_owner "aiokafka_lead_has_no_other_owner" (object kept) noexcept
