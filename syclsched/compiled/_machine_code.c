/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension module of machine code that numba made when the package was built (see build.py).
 *
 * Each function is called by numba's wrapper, which reads its arguments from Python objects. The helper functions of
 * these wrappers are part of numba's sources and are compiled in here: numba itself is not needed.
 */

#define NUMBA_EXPORT_FUNC(_rettype) VISIBILITY_HIDDEN _rettype
#define NUMBA_EXPORT_DATA(_vartype) VISIBILITY_HIDDEN _vartype
#define PYCC_COMPILING

#include "_numba_common.h"
#include "_pymodule.h"
#if PY_VERSION_HEX >= 0x030D0000 /* where the secret of hashes is declared */
#define Py_BUILD_CORE 1
#include "internal/pycore_pyhash.h"
#undef Py_BUILD_CORE
#endif

#include "_helperlib.c"
#include "_dynfunc.c"
#include "core/runtime/_nrt_python.c"
#include "core/runtime/nrt.h"

int64_t _numba_hashsecret_siphash_k0;
int64_t _numba_hashsecret_siphash_k1;
int64_t _numba_hashsecret_djbx33a_suffix;

#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define QUOTED_(a) #a
#define QUOTED(a) QUOTED_(a)

/* One compiled function, as build.py writes it. */
struct entry {
    const char *name;
    PyCFunctionWithKeywords call;
    void **environment;    /* where the wrapper looks for its constants */
    const char *constants; /* pickled */
    int64_t constants_size;
    int64_t makes_objects; /* whether the result is an array or a tuple */
};

/* The functions of each object file, the last with name NULL. */
extern const struct entry syclsched_entries_0[] __attribute__((weak, visibility("hidden")));
extern const struct entry syclsched_entries_1[] __attribute__((weak, visibility("hidden")));
extern const struct entry syclsched_entries_2[] __attribute__((weak, visibility("hidden")));
extern const struct entry syclsched_entries_3[] __attribute__((weak, visibility("hidden")));

/* Lets the build find out what an existing module was made from. */
__attribute__((used)) static const char made_from[] = "made from " QUOTED(MADE_FROM);

/* A fingerprint is built here. Those of our calls are some hundred bytes long. */
struct print {
    size_t size;
    char bytes[8192];
};

static int add(struct print *print, const void *bytes, size_t size)
{
    if (print->size + size > sizeof print->bytes)
        return 0;
    memcpy(print->bytes + print->size, bytes, size);
    print->size += size;
    return 1;
}

static int add_array(struct print *print, PyArrayObject *array)
{
    PyArray_Descr *dtype = PyArray_DESCR(array);
    const int known = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    unsigned char head[4] = {'A', 0, (unsigned char)PyArray_NDIM(array), 0};
    int flags = PyArray_FLAGS(array), number = dtype->type_num;

    if (!(flags & NPY_ARRAY_ALIGNED) || PyArray_NDIM(array) > 32)
        return 0;
    head[1] = (unsigned char)((flags & known & 3) | (flags & NPY_ARRAY_WRITEABLE ? 4 : 0));
    if (number < NPY_OBJECT && PyArray_ISNBO(dtype->byteorder)) {
        head[3] = (unsigned char)number;
        return add(print, head, sizeof head);
    }
    head[3] = 255;
    return number == NPY_VOID && add(print, head, sizeof head) && add(print, &dtype, sizeof dtype);
}

static int add_value(struct print *print, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);

    if (PyArray_Check(value)) {
        if (!PyArray_CheckExact(value) && !(add(print, "S", 1) && add(print, &type, sizeof type)))
            return 0;
        return add_array(print, (PyArrayObject *)value);
    }
    if (PyTuple_Check(value)) {
        Py_ssize_t size = PyTuple_GET_SIZE(value), n;
        if (!add(print, "T", 1) || !add(print, &type, sizeof type) || !add(print, &size, sizeof size))
            return 0;
        for (n = 0; n < size; n++)
            if (!add_value(print, PyTuple_GET_ITEM(value, n)))
                return 0;
        return 1;
    }
    if (PyBool_Check(value))
        return add(print, "b", 1);
    if (PyLong_CheckExact(value)) {
        int overflow;
        PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && add(print, "i", 1);
    }
    if (PyFloat_CheckExact(value))
        return add(print, "f", 1);
    if (value == Py_None)
        return add(print, "n", 1);
    return PyArray_IsScalar(value, Number) || PyArray_IsScalar(value, Bool)
               ? add(print, "s", 1) && add(print, &type, sizeof type)
               : 0;
}

static PyObject *fingerprint(PyObject *module, PyObject *arguments)
{
    struct print print;
    Py_ssize_t n;

    (void)module;
    if (!PyTuple_CheckExact(arguments)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of arguments is needed");
        return NULL;
    }
    print.size = 0;
    for (n = 0; n < PyTuple_GET_SIZE(arguments); n++)
        if (!add_value(&print, PyTuple_GET_ITEM(arguments, n)))
            Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(print.bytes, (Py_ssize_t)print.size);
}

static PyMethodDef methods[] = {
    {"fingerprint", fingerprint, METH_O, "Return a short key for the types of some arguments, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, QUOTED(MODULE_NAME), NULL, -1, methods, NULL, NULL, NULL, NULL,
};

static void *import_numpy(void)
{
    import_array();
    return &definition;
}

static int add_function(PyObject *module, const struct entry *entry)
{
    EnvironmentObject *environment = env_new_empty(&EnvironmentType);
    PyObject *name = NULL, *text = NULL, *function = NULL;
    int failed = -1;

    if (environment == NULL)
        return -1;
    environment->consts = numba_unpickle(entry->constants, (int)entry->constants_size, NULL);
    environment->globals = PyModule_GetDict(module);
    Py_XINCREF(environment->globals);
    name = PyUnicode_FromString(entry->name);
    text = PyUnicode_FromString(entry->makes_objects ? "Returns objects." : "");
    if (environment->consts != NULL && name != NULL && text != NULL) {
        *entry->environment = environment; /* the function keeps it */
        function = pycfunction_new(module, name, text, (PyCFunction)(void (*)(void))entry->call, environment, NULL);
        if (function != NULL)
            failed = PyObject_SetAttr(module, name, function);
    }
    Py_XDECREF(function);
    Py_XDECREF(text);
    Py_XDECREF(name);
    Py_DECREF(environment);
    return failed;
}

PyMODINIT_FUNC JOINED(PyInit_, MODULE_NAME)(void)
{
    const struct entry *units[] = {syclsched_entries_0, syclsched_entries_1, syclsched_entries_2, syclsched_entries_3};
    PyObject *module;
    size_t unit;

    _numba_hashsecret_siphash_k0 = _Py_HashSecret.siphash.k0;
    _numba_hashsecret_siphash_k1 = _Py_HashSecret.siphash.k1;
    _numba_hashsecret_djbx33a_suffix = _Py_HashSecret.djbx33a.suffix;
    if (import_numpy() == NULL)
        return NULL;
    module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    NRT_MemSys_init();
    if (init_dynfunc_module(module) || init_nrt_python_module(module))
        goto failed;
    for (unit = 0; unit < sizeof units / sizeof *units; unit++) {
        const struct entry *entry;
        for (entry = units[unit]; entry != NULL && entry->name != NULL; entry++)
            if (add_function(module, entry))
                goto failed;
    }
    return module;
failed:
    Py_DECREF(module);
    return NULL;
}
