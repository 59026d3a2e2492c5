/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of runs made by one call (_submit_flight.c) and of the choice how they are made
 * (_submit_trials.c).
 */
#ifndef SYCLSCHED_SUBMIT_FLIGHT_H
#define SYCLSCHED_SUBMIT_FLIGHT_H

#include "_submit.h"

enum { SUBMITTED = 0, ON_CALLER = 1, HELPED = 2, WAYS = 3 };

/* Trial runs of each way, which take turns. */
enum { TRIALS = 18 };

struct result {
    void *to; /* set by the caller, or by `fly_into` */
    const void *from;
    size_t nbytes;
};

/* The inputs and outputs of a run; owned by the caller, which must not change them while the run is in progress. */
struct job {
    struct lane *lanes;
    int64_t lanes_count;
    const struct command *const *commands;
    int64_t count;
    int64_t ahead;             /* number of first commands that the caller submits, or executes, in this run */
    struct event *events;
    int64_t events_count;
    int64_t *submit_ns;
    struct event *made;        /* space for 2 * `count` */
    const volatile int32_t *stop;
    struct result *results;
    int64_t results_count;
    int64_t done[2];           /* submissions by the caller, and by the thread */
    int64_t made_count[2];     /* events from made[0] and from made[2 * ahead] */
    int64_t handed_ns;         /* processor time of submission: the caller's clock after its last submission, plus the thread's
                                  time for the rest; without the time spent computing kernels; 0 if unknown */
    int64_t caller_ns;         /* the caller's part of it */
    const struct command *const *listed; /* the commands of `begin` */
    const struct command *const *own;    /* those of `begin_with`, which read its arrays in place; or null */
    struct given *given;
    int64_t given_count;
    int64_t short_ns;          /* the caller polls for the end of a run that takes no longer */
    int64_t handed_at_ns;      /* when the caller had made its submissions */
    int64_t took_ns;           /* duration of the last run from then on */
    int64_t spreads;           /* whether computing threads may be moved to the caller's core when it waits */
    int64_t submitted_ahead;   /* `ahead` of a run that is submitted */
    const struct lane *local;  /* by lane, a queue that executes commands on the calling thread; or null */
    int64_t way;               /* how this run is made: SUBMITTED, ON_CALLER or HELPED */
    int64_t begun_at_ns;
    int64_t trials[3];         /* trial runs: submitted, on the calling thread, and there with helpers */
    int64_t typical_ns[3];     /* the lower quartile of the times of each; 0 if unknown */
    int64_t is_brief;          /* whether runs on the calling thread have proved faster and brief */
    const struct lane *const *helping; /* of each helper, as `local` */
    int64_t helpers_count;
    int64_t *least_of;         /* by command, the shortest time on the calling thread alone; 0 if unknown */
    int64_t *parts;            /* by command, the parts in which it is executed with helpers */
    int64_t is_divided;        /* whether helpers may pay */
    int64_t delayed, alone;    /* helped runs in sequence that were delayed, and next runs that are made without helpers */
    int64_t company;           /* number of next runs for which other callers are expected */
    int64_t since_trials;      /* runs that began since all ways were last tried */
    int64_t again;             /* the number of them after which all ways are tried again; 0 if they never were */
    int64_t timed[3];          /* the number of trial runs of each way that were timed */
    int64_t times_ns[3][TRIALS]; /* their times, in ascending order */
};

/* Return how the next run is made. */
int syclsched_way_of(struct job *job);

/* Count a completed run. */
void syclsched_note(struct job *job);

#endif
