/* SPDX-License-Identifier: Apache-2.0
 *
 * Input arrays of a run, read from NumPy's structures: with cold caches each access from Python costs microseconds. The
 * structures are those that the headers of CPython and NumPy guarantee to extensions; the caller compares their sizes
 * first (syclsched/devices/native/input_arrays.py).
 */
#include "_submit.h"

struct object {
    int64_t references;
    const void *type;
};

struct tuple {
    struct object head;
    int64_t count;
};

/* Bytes before the items of a tuple, which differ between versions of CPython: set by the caller. */
int64_t syclsched_tuple_bytes;

struct array {
    struct object head;
    void *data;
    int32_t dimensions;
    const int64_t *shape;
    const int64_t *strides;
    const void *base;
    const void *dtype;
    int32_t flags;
};

enum { C_CONTIGUOUS = 0x1, ALIGNED = 0x100 };

static int is_as(const struct array *array, const struct given *wanted)
{
    if (array->head.type != wanted->type || array->dtype != wanted->dtype || array->dimensions != wanted->dimensions ||
        (array->flags & (C_CONTIGUOUS | ALIGNED)) != (C_CONTIGUOUS | ALIGNED))
        return 0;
    for (int64_t i = 0; i < wanted->dimensions; ++i)
        if (array->shape[i] != wanted->shape[i])
            return 0;
    return 1;
}

/* Return whether an array of the expected form has values in the range of its indices, if they have one. */
static int has_indices(const struct array *array, const struct given *wanted)
{
    const int64_t *wide = array->data;
    const int32_t *narrow = array->data;
    int64_t count = wanted->index_bytes ? 1 : 0;
    int beyond = 0;
    for (int64_t i = 0; i < wanted->dimensions; ++i)
        count *= wanted->shape[i];
    for (int64_t i = 0; i < count; ++i) {
        int64_t value = wanted->index_bytes == sizeof *wide ? wide[i] : narrow[i];
        beyond |= (value < wanted->least) | (value >= wanted->extent);
    }
    return !beyond;
}

static const struct array *const *items_of(const void *tuple)
{
    return (const void *)((const char *)tuple + syclsched_tuple_bytes);
}

void *syclsched_data_of(const void *tuple, int64_t index)
{
    return items_of(tuple)[index]->data;
}

/* Read the data addresses of all arrays in a tuple. Returns 0 if one is not an array of the expected form, or has an
 * index out of range. */
int32_t syclsched_look(struct given *given, int64_t count, const void *tuple)
{
    const struct array *const *items = items_of(tuple);
    if (((const struct tuple *)tuple)->count != count)
        return 0;
    for (int64_t i = 0; i < count; ++i) {
        if (!is_as(items[i], &given[i]) || !has_indices(items[i], &given[i]))
            return 0;
        given[i].data = items[i]->data;
    }
    return 1;
}

/* Make commands read the arrays found. Returns 0 if a library refuses its pointer; commands need no roll-back, because
 * all pointers are set again before each run. */
int32_t syclsched_take(struct given *given, int64_t count)
{
    typedef int32_t function(ref, void *);
    for (int64_t i = 0; i < count; ++i) {
        if (given[i].copy)
            given[i].copy->from = given[i].data;
        if (!given[i].move || given[i].moved_to == given[i].data)
            continue;
        given[i].moved_to = NULL;
        if (((function *)given[i].move)(given[i].moved, given[i].data) != 0)
            return 0;
        given[i].moved_to = given[i].data;
    }
    return 1;
}
