/* SPDX-License-Identifier: Apache-2.0
 *
 * What the submission loop and its ways to a queue share: dpctl's C interface for any SYCL queue, OpenCL for the native
 * queue behind one, and threads of our own for lanes that are cores of the host. None needs a header or a library to build: functions are found in the running process and
 * passed in tables.
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
    ref function;            /* of a call: int32_t (*)(words), 0 if all went well */
    const uint64_t *words;   /* CALL_WORDS of them */
    int64_t event_word;      /* the one that takes the address of a SYCL event for it to assign; -1 if none does */
    int32_t *returned;       /* what it returned last */
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
    int64_t calls;            /* whether functions of libraries submit to it */
    const struct lane *apart; /* the same queue by SYCL's way, if that does what functions submit by threads of its own */
    ref last;                 /* with such a one: the event of what was submitted last */
    int64_t last_is_call;
    int64_t timed;            /* of that one: whether each call is waited for, so that it is known when it ended */
    int64_t remembered;       /* calls of which SYCL's queue still knows, though they may have ended */
};

/* An event, and where it comes from. */
struct event {
    ref event;
    const struct lane *lane;
    int64_t slot; /* of the command it was made for */
};

/* An array that runs are given, as it must be, and what reads it. */
struct given {
    const void *type, *dtype; /* addresses of what Python has for them */
    int64_t dimensions;
    const int64_t *shape;
    void *data;           /* where the last one lay */
    struct command *copy; /* reads it; or null */
    ref move;             /* or this says so: int32_t (*)(moved, data), 0 if all went well */
    ref moved;
    const void *moved_to;
};

/* Finds where arrays lie, and has them read; see _submit_arrays.c. */
int32_t syclsched_look(struct given *given, int64_t count, const void *tuple);
int32_t syclsched_take(struct given *given, int64_t count);

/* Calls a function, which submits to the queue behind a lane. Returns 0 if that went well, and whether it has assigned the
 * SYCL event it was given, if it was given one. */
int32_t syclsched_call(const struct command *command, ref event, int *assigned);

/* Waits for all of a queue of SYCL's, which forgets what it was given only then. */
void syclsched_forget(const struct lane *lane);

/* The monotonic clock. */
int64_t syclsched_now_ns(void);

/* The processor time of the calling thread, and how much of that it computed for kernels between two submissions. */
int64_t syclsched_processor_ns(void);
int64_t syclsched_helped_ns(void);

/* Let a while pass, by how often was looked before: first a turn of the processor, then what else there is to run. */
void syclsched_pause(int64_t look);

/* Begin the n-th thread on a core that nobody of us has, which is not the one called `here` (-1 for none): lanes that wait
 * for each other look like one load to the system, which may leave them on one core for as long as a run takes. The
 * function is to allow all cores again. Returns 0 if there can be none. */
int syclsched_begin_on(pthread_t *id, const cpu_set_t *allowed, int64_t number, int here, void *(*function)(void *),
                       void *argument);

/* The core of a caller that is about to sleep, for a thread that shares another; see _submit_spread.c. */
struct spread;
struct spread *syclsched_spread_new(void);
void syclsched_spread_delete(struct spread *spread);
int32_t syclsched_spread(struct spread *spread, int32_t except);
void syclsched_spread_end(struct spread *spread);
int32_t syclsched_thread_id(void);

/* The submission loop and what goes with it; see _submit.c. */
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
