/* SPDX-License-Identifier: Apache-2.0
 *
 * What the submission loop and its two ways to a queue share: dpctl's C interface for any SYCL queue, and OpenCL for the
 * native queue behind one. Neither needs a header or a library to build: functions are found in the running process and
 * passed in tables.
 */
#ifndef SYCLSCHED_SUBMIT_H
#define SYCLSCHED_SUBMIT_H

#include <stddef.h>
#include <stdint.h>

typedef void *ref;

enum kind { FENCE = 0, RANGE = 1, ND_RANGE = 2, COPY = 3 };

struct command {
    int64_t kind;
    int64_t lane;
    int64_t slot;            /* where its event goes */
    const int64_t *waits;    /* slots of the events it waits for */
    size_t waits_count;
    ref kernel;              /* as its lane's way takes it */
    void **arguments;
    const int32_t *types;    /* DPCTLKernelArgType */
    size_t arguments_count;
    size_t global[3];
    size_t local[3];
    size_t dimensions;
    void *to;
    const void *from;
    size_t nbytes;
};

struct lane;

/* One way to a queue. `submit` returns the event, or null if it was refused. */
struct way {
    ref (*submit)(const struct lane *lane, const struct command *command, const ref *depends, size_t count);
    ref (*fence)(const struct lane *lane, const ref *depends, size_t count);
    void (*flush)(const struct lane *lane);
    int32_t (*status)(const struct lane *lane, ref event); /* 1 complete, 0 not yet, less than 0 failed */
    void (*wait)(const struct lane *lane, ref event);
    void (*delete)(const struct lane *lane, ref event);
    uint64_t (*start_ns)(const struct lane *lane, ref event);
    uint64_t (*end_ns)(const struct lane *lane, ref event);
    int32_t (*perform)(const struct lane *lane, const struct command *command); /* here and now; 0 if that went well */
};

/* An in-order queue. */
struct lane {
    const struct way *way;
    const void *functions;    /* the way's own table */
    ref queue;
    void *scratch_to;         /* two bytes of device memory for fences */
    const void *scratch_from;
    int64_t longest_list;     /* a kernel with more unfinished events than this goes behind a fence */
};

/* An event, and where it comes from. */
struct event {
    ref event;
    const struct lane *lane;
    int64_t slot; /* of the command it was made for */
};

extern const struct way syclsched_way_dpctl;
extern const struct way syclsched_way_opencl;

#endif
