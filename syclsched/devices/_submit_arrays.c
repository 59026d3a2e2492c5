/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that a run is given, looked at where NumPy has them: with nothing of Python in the caches each look from there
 * costs microseconds. The structures are those that CPython's and NumPy's headers promise to extensions; who calls this
 * compares their sizes first (syclsched/devices/arrays.py).
 */
#include "_submit.h"

struct object {
    int64_t references;
    const void *type;
};

struct tuple {
    struct object head;
    int64_t count;
    const struct array *items[];
};

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

/* Find where the data of all items of a tuple lie. Returns 0 if one is no array as it is wanted. */
int32_t syclsched_look(struct given *given, int64_t count, const void *tuple)
{
    const struct tuple *all = tuple;
    if (all->count != count)
        return 0;
    for (int64_t i = 0; i < count; ++i) {
        if (!is_as(all->items[i], &given[i]))
            return 0;
        given[i].data = all->items[i]->data;
    }
    return 1;
}

/* Have commands read what was found. Returns 0 if a library refuses, which is not left halfway: what reads elsewhere is
 * told before each run. */
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
