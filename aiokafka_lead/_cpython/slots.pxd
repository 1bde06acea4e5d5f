# Attributes and memory of a compiled type, of which there can be one in a module. slots.py is the plain Python version.
#
# Cython creates a function for each attribute that returns its value. With a member descriptor instead, as `__slots__`
# has, CPython reads the object directly once the calling code is warm (LOAD_ATTR_SLOT, PEP 659). A sample object shows
# where each attribute is stored.
#
# Moreover, Cython fills a new object with None before its attributes are set, and registers it with the garbage
# collector, which took a fifth of the time of reading records. Here, a new object is a copy of another one's memory.


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_SLOTS

    #define aiokafka_lead_expose(sample, names) 0

    static inline PyObject *aiokafka_lead_like(PyObject *sample) {
        PyObject *made = NULL;
        PyObject *key = PyObject_GetAttrString(sample, "key");
        PyObject *value = PyObject_GetAttrString(sample, "value");
        if (key != NULL && value != NULL)
            made = PyObject_CallMethod(sample, "with_content", "OO", key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
        return made;
    }

    #else

    #include "structmember.h"

    #define AIOKAFKA_LEAD_PLACES 16
    #define AIOKAFKA_LEAD_SPARE 4096

    static Py_ssize_t aiokafka_lead_places[AIOKAFKA_LEAD_PLACES];
    static Py_ssize_t aiokafka_lead_place_count;
    static PyObject *aiokafka_lead_spare[AIOKAFKA_LEAD_SPARE];
    static Py_ssize_t aiokafka_lead_spare_count;

    static inline PyObject *aiokafka_lead_member(PyObject *sample, PyObject *name) {
        PyTypeObject *kind = Py_TYPE(sample);
        PyObject *content = PyObject_GetAttr(sample, name);
        PyMemberDef *member;
        Py_ssize_t at = sizeof(PyObject);
        if (content == NULL)
            return NULL;
        while (at < kind->tp_basicsize && *(PyObject **) ((char *) sample + at) != content)
            at += sizeof(PyObject *);
        Py_DECREF(content);
        if (at >= kind->tp_basicsize || aiokafka_lead_place_count == AIOKAFKA_LEAD_PLACES)
            return PyErr_Format(PyExc_TypeError, "%R is no object in instances of %s", name, kind->tp_name);
        member = (PyMemberDef *) PyMem_Calloc(1, sizeof(PyMemberDef));  /* never freed, like the type and the name */
        if (member == NULL)
            return PyErr_NoMemory();
        Py_INCREF(name);
        member->name = PyUnicode_AsUTF8(name);
        member->type = T_OBJECT_EX;
        member->offset = at;
        member->flags = READONLY;
        aiokafka_lead_places[aiokafka_lead_place_count++] = at;
        return PyDescr_NewMember(kind, member);
    }

    static inline void aiokafka_lead_drop(PyObject *self) {
        Py_ssize_t i;
        PyObject_GC_UnTrack(self);
        for (i = 0; i < aiokafka_lead_place_count; i++) {
            Py_XDECREF(*(PyObject **) ((char *) self + aiokafka_lead_places[i]));
        }
    #ifndef Py_GIL_DISABLED
        if (aiokafka_lead_spare_count < AIOKAFKA_LEAD_SPARE)
            aiokafka_lead_spare[aiokafka_lead_spare_count++] = self;
        else
    #endif
            Py_TYPE(self)->tp_free(self);
    }

    static inline PyObject *aiokafka_lead_like(PyObject *sample) {
        PyTypeObject *kind = Py_TYPE(sample);
        PyObject *made = aiokafka_lead_spare_count > 0
            ? PyObject_Init(aiokafka_lead_spare[--aiokafka_lead_spare_count], kind)
            : PyObject_GC_New(PyObject, kind);
        Py_ssize_t i;
        if (made == NULL)
            return NULL;
        memcpy((char *) made + sizeof(PyObject), (char *) sample + sizeof(PyObject), kind->tp_basicsize - sizeof(PyObject));
        for (i = 0; i < aiokafka_lead_place_count; i++) {
            Py_XINCREF(*(PyObject **) ((char *) made + aiokafka_lead_places[i]));
        }
        return made;
    }

    static inline int aiokafka_lead_expose(PyObject *sample, PyObject *names) {
        PyTypeObject *kind = Py_TYPE(sample);
        Py_ssize_t i;
        for (i = 0; i < PyTuple_GET_SIZE(names); i++) {
            PyObject *name = PyTuple_GET_ITEM(names, i);
            PyObject *member = aiokafka_lead_member(sample, name);
            int failed = member == NULL || PyDict_SetItem(kind->tp_dict, name, member) < 0;
            Py_XDECREF(member);
            if (failed)
                return -1;
        }
        kind->tp_dealloc = aiokafka_lead_drop;
        PyType_Modified(kind);
        return 0;
    }

    #endif
    """
    int aiokafka_lead_expose(object sample, tuple names) except -1
    object like "aiokafka_lead_like" (object sample)


cdef inline int expose(object sample, tuple names) except -1:
    return aiokafka_lead_expose(sample, names)
