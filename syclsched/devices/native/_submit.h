/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of the submission loop and its backends (`struct way`): dpctl's C interface for any SYCL queue,
 * OpenCL for the native queue behind one, and lane threads for lanes that are cores of the host. Building needs no other
 * header or library: functions are found in the running process and passed in tables.
 */
#ifndef SYCLSCHED_SUBMIT_H
#define SYCLSCHED_SUBMIT_H

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

typedef void *ref;

enum kind { FENCE = 0, RANGE = 1, ND_RANGE = 2, COPY = 3, CALL = 4 };

enum { CALL_WORDS = 6 };

struct command {
    int64_t kind;
    int64_t lane;
    int64_t slot;            /* index of its event */
    const int64_t *waits;    /* slots of the events it waits for */
    size_t waits_count;
    ref kernel;              /* the handle that the lane's backend takes */
    void **arguments;
    const int32_t *types;    /* DPCTLKernelArgType */
    size_t arguments_count;
    size_t global[3];
    size_t local[3];
    size_t dimensions;
    void *to;
    const void *from;
    size_t nbytes;
    ref function;            /* of a call: int32_t (*)(words), 0 on success */
    const uint64_t *words;   /* CALL_WORDS of them */
    int64_t event_word;      /* index of the word for the address of a SYCL event to assign; -1: none */
    int32_t *returned;       /* its last return value */
    int64_t divisible;       /* of a kernel: whether launches of parts of its work-groups do the same */
};

struct lane;

/* A backend: functions of one kind of queue. `submit` returns the event, or null if the command was refused. */
struct way {
    ref (*submit)(const struct lane *lane, const struct command *command, const ref *depends, size_t count);
    ref (*fence)(const struct lane *lane, const ref *depends, size_t count);
    void (*flush)(const struct lane *lane);
    int32_t (*status)(const struct lane *lane, ref event); /* 1 complete, 0 not yet, less than 0 failed */
    void (*wait)(const struct lane *lane, ref event);
    void (*delete)(const struct lane *lane, ref event);
    uint64_t (*start_ns)(const struct lane *lane, ref event);
    uint64_t (*end_ns)(const struct lane *lane, ref event);
    int32_t (*perform)(const struct lane *lane, const struct command *command); /* synchronously; 0 on success */
    /* The same for `count` of the `parts` of a divisible kernel. */
    int32_t (*perform_parts)(const struct lane *lane, const struct command *command, int64_t first, int64_t count,
                             int64_t parts);
};

/* An in-order queue. */
struct lane {
    const struct way *way;
    const void *functions;    /* the backend's own data */
    ref queue;
    void *scratch_to;         /* two bytes of device memory for fences */
    const void *scratch_from;
    int64_t longest_list;     /* a kernel with more unfinished dependencies goes behind a fence */
    int64_t calls;            /* whether library functions submit to it */
    const struct lane *apart; /* of a split lane: its SYCL queue for library calls; else null */
    int64_t unsplit_done;     /* of a split lane: whether all it was given before the split has completed */
    ref last;                 /* of a split lane: the event of the last submission */
    int64_t last_is_call;
    int64_t timed;            /* of `apart`: whether to wait for each call, to learn when it ended */
    int64_t distant;          /* of `apart`: whether the host cannot reach the device's memory */
    int64_t remembered;       /* calls that SYCL's queue still stores, though they may have ended */
};

/* An event, its lane and its slot. */
struct event {
    ref event;
    const struct lane *lane;
    int64_t slot; /* of its command */
};

/* An input array of a run: its expected form, and the command that reads it. */
struct given {
    const void *type, *dtype; /* addresses of the Python objects */
    int64_t dimensions;
    const int64_t *shape;
    int64_t index_bytes;   /* of each element, a signed integer, if the elements are indices; else 0 */
    int64_t least, extent; /* the least index, and one past the last */
    void *data;           /* data address of the last array */
    struct command *copy; /* the command that copies it, or null */
    ref move;             /* or a function that sets a library's or a kernel's pointer: int32_t (*)(moved, data), 0 on
                             success */
    ref moved;
    const void *moved_to;
};

/* An argument of a native kernel that reads an input array in place. */
struct moved_argument {
    const void *functions; /* of its lane */
    ref kernel;
    int64_t index;
};

int32_t syclsched_move_argument(const struct moved_argument *moved, const void *data);

/* Read the addresses of input arrays, and set them in commands; see _submit_arrays.c. */
int32_t syclsched_look(struct given *given, int64_t count, const void *tuple);
int32_t syclsched_take(struct given *given, int64_t count);

/* Return the data address of an array in a tuple. */
void *syclsched_data_of(const void *tuple, int64_t index);

/* Call a library function that submits to a lane's queue. Returns 0 on success; *assigned tells whether the function
 * has assigned the SYCL event, if there is one. */
int32_t syclsched_call(const struct command *command, ref event, int *assigned);

/* Wait for a SYCL queue, which frees its records of completed commands only then. */
void syclsched_forget(const struct lane *lane);

/* Return the monotonic clock. */
int64_t syclsched_now_ns(void);

/* Return the processor time of the calling thread, and how much of it went to kernels while waiting in a submission. */
int64_t syclsched_processor_ns(void);
int64_t syclsched_helped_ns(void);

/* Polling back-off by number of polls so far: pause instruction, then yield, then sleep. */
void syclsched_pause(int64_t look);

/* Start the n-th thread on a core of its own, other than core `here` (-1 for none): the system may leave lanes that
 * wait for each other on one core for a whole run. The function must allow all cores again. Returns 0 on failure. */
int syclsched_begin_on(pthread_t *id, const cpu_set_t *allowed, int64_t number, int here, void *(*function)(void *),
                       void *argument);

/* Move a computing thread to the core of a caller that is about to sleep; see _submit_spread.c. */
struct spread;
struct spread *syclsched_spread_new(void);
void syclsched_spread_delete(struct spread *spread);
int32_t syclsched_spread(struct spread *spread, int32_t except);
void syclsched_spread_end(struct spread *spread);
int32_t syclsched_thread_id(void);

/* Threads that help a caller to execute kernels; see _submit_helpers.c. */
struct helpers;
struct helpers *syclsched_helpers_new(const struct lane *const *lanes, int64_t count);
void syclsched_helpers_delete(struct helpers *helpers);
void syclsched_helpers_begin(struct helpers *helpers, const struct command *const *commands);
int32_t syclsched_helpers_perform(struct helpers *helpers, const struct lane *lanes, int64_t command, int64_t parts);
void syclsched_helpers_end(struct helpers *helpers);

/* The submission loop; see _submit.c. */
int64_t syclsched_submit(struct lane *lanes, int64_t lanes_count, const struct command *const *commands, int64_t count,
                         struct event *events, int64_t *submit_ns, struct event *made, int64_t *made_count,
                         const volatile int32_t *stop);
void syclsched_wait(const struct event *events, int64_t count);
int64_t syclsched_next_failed(const struct event *events, int64_t begin, int64_t count);
void syclsched_delete(const struct event *events, int64_t count);

extern const struct way syclsched_way_dpctl;
extern const struct way syclsched_way_opencl;
extern const struct way syclsched_way_apart;
extern const struct way syclsched_way_threads;

#endif
