/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice how a run is made: submitted to the runtime's threads, or executed on the calling thread, alone or with
 * helpers. The first runs try each way.
 */
#include <string.h>

#include "_submit_flight.h"

/* Runs after which all ways are tried again, the first time and later, four times as many each time: others may have
 * used the machine meanwhile, or no longer use it. */
enum { FIRST_AGAIN = 128, AGAIN = 2048 };

/* Runs of the calling thread after which its times tell how to divide kernels, and after which it may have proved faster;
 * the longest run for which others are tried, the longest that is brief, and the longest that proves it
 * early: several cores cannot save more than their wake-up takes. */
enum { FEWEST = 3, FEWEST_FASTER = 2, LONGEST_NS = 2000000, BRIEF_NS = 25000, EARLY_NS = 50000 };

/* Least time of what is divided into parts: in all, of a command in two parts, and of each of more parts, which is
 * launched in 2 us; and the most parts. */
enum { DIVIDED_NS = 60000, HALVED_NS = 8000, PART_NS = 12000, MOST_PARTS = 32 };

/* Runs of each way in sequence: the first of them finds the threads of its way asleep, and is not timed. */
enum { BLOCK = 3 };

/* Percent of the fastest way's time above which a way is left out, after one block of it, two, and more. The more, the
 * surer: other users of a processor make single blocks slow. Ways that take about as long cost little to try. */
static const int64_t DROPPED[] = {200, 150, 125};

/* Delayed runs in sequence that count: 64 runs are then made without helpers before the next one with them. */
enum { MOST_DELAYED = 6 };

/* Set the parts of each command by its time on the calling thread alone. Returns whether helpers may pay. */
static int divide(const struct job *job)
{
    int64_t divided_ns = 0;
    for (int64_t i = 0; job->helpers_count && i < job->count; ++i) {
        int64_t parts = job->listed[i]->divisible ? job->least_of[i] / PART_NS : 1;
        if (parts < 2 && job->listed[i]->divisible && job->least_of[i] >= HALVED_NS)
            parts = 2;
        job->parts[i] = parts < MOST_PARTS ? parts : MOST_PARTS;
        divided_ns += parts > 1 ? job->least_of[i] : 0;
    }
    return divided_ns >= DIVIDED_NS;
}

/* Factor of the time that a run by fewer threads may take: after a pause between calls, others have to be woken. */
static const double GAIN = 1.1;

static int is_possible(const struct job *job, int64_t way)
{
    return way != HELPED || (job->is_divided && !job->company);
}

/* Whether the next run may try a way. */
static int is_tried(const struct job *job, int64_t way)
{
    return job->trials[way] < TRIALS && is_possible(job, way);
}

/* Return the fastest way, or one that wakes fewer threads and takes little longer. */
static int64_t best_way(const struct job *job)
{
    int64_t shortest_ns = INT64_MAX;
    for (int64_t way = SUBMITTED; way < WAYS; ++way)
        if (is_possible(job, way) && job->typical_ns[way] && job->typical_ns[way] < shortest_ns)
            shortest_ns = job->typical_ns[way];
    for (int64_t way = ON_CALLER; way < WAYS; ++way)
        if (is_possible(job, way) && job->typical_ns[way] && (double)job->typical_ns[way] <= GAIN * (double)shortest_ns)
            return way;
    return SUBMITTED;
}

/* Whether runs are too long to be tried in other ways than SUBMITTED. Among other callers that may take long, too. */
static int is_long(const struct job *job)
{
    int64_t alone_ns = job->typical_ns[ON_CALLER];
    return job->typical_ns[SUBMITTED] > LONGEST_NS && !(alone_ns && alone_ns <= LONGEST_NS);
}

/* Return how the next run is made: the first runs try each way in turn, later ones take the best way, or, among other
 * callers, the one that takes less processor time. After many runs that begins anew. */
int syclsched_way_of(struct job *job)
{
    int64_t next = -1, again = job->again ? job->again : FIRST_AGAIN;
    if (++job->since_trials >= again) {
        job->since_trials = 0;
        job->again = 4 * again < AGAIN ? 4 * again : AGAIN;
        memset(job->trials, 0, sizeof job->trials);
        memset(job->typical_ns, 0, sizeof job->typical_ns);
        memset(job->timed, 0, sizeof job->timed);
    }
    if (!job->local)
        return SUBMITTED;
    if (job->company && job->trials[ON_CALLER] < FEWEST && job->typical_ns[ON_CALLER] <= LONGEST_NS)
        return ON_CALLER;
    if (!job->trials[SUBMITTED] || is_long(job))
        return SUBMITTED;
    if (job->trials[job->way] % BLOCK && is_tried(job, job->way))
        return (int)job->way;
    for (int way = SUBMITTED; way < WAYS; ++way)
        if (is_tried(job, way) && (next < 0 || job->trials[way] < job->trials[next]))
            next = way;
    if (next >= 0)
        return (int)next;
    int64_t best = best_way(job);
    if (best == HELPED && job->alone)
        return ON_CALLER;
    if (job->company && job->typical_ns[ON_CALLER] < 2 * job->typical_ns[SUBMITTED])
        return ON_CALLER;
    return (int)best;
}

/* Make the next runs without helpers if they delayed this one: on a busy machine a helper may sleep in the midst of its
 * part. After each such run in sequence, twice as many. */
static void judge_helpers(struct job *job, int64_t took_ns)
{
    if (job->way == ON_CALLER && job->alone)
        --job->alone;
    if (job->way != HELPED || job->trials[HELPED] < TRIALS)
        return;
    job->delayed = took_ns > 2 * job->typical_ns[ON_CALLER] ? job->delayed + 1 : 0;
    if (job->delayed)
        job->alone = (int64_t)1 << (job->delayed < MOST_DELAYED ? job->delayed : MOST_DELAYED);
}

/* Add the time of a trial run. The lower quartile counts: a disturbed run takes longer, a single one may be lucky. */
static void add_time(struct job *job, int64_t way, int64_t took_ns)
{
    int64_t *times_ns = job->times_ns[way], at = job->timed[way]++;
    for (; at > 0 && times_ns[at - 1] > took_ns; --at)
        times_ns[at] = times_ns[at - 1];
    times_ns[at] = took_ns;
    job->typical_ns[way] = times_ns[(job->timed[way] - 1) / 4];
}

/* Whether a way takes so much longer than another that it is left out after so many trial runs. */
static int is_slower(int64_t typical_ns, int64_t fastest_ns, int64_t trials)
{
    int64_t blocks = trials / BLOCK, most = sizeof DROPPED / sizeof *DROPPED;
    return blocks && 100 * typical_ns > DROPPED[(blocks < most ? blocks : most) - 1] * fastest_ns;
}

/* Count a completed run. A way is not tried again once its runs take clearly longer than another's; nor is any once the
 * calling thread's are short and clearly the shortest: a thread's wake-up delays the others until then. */
void syclsched_note(struct job *job)
{
    int64_t way = job->way, took_ns = syclsched_now_ns() - job->begun_at_ns, least_ns = INT64_MAX;
    judge_helpers(job, took_ns);
    if (job->trials[way]++ % BLOCK && job->trials[way] <= TRIALS)
        add_time(job, way, took_ns);
    if (is_long(job) && took_ns <= LONGEST_NS)
        job->since_trials = AGAIN; /* its trials were disturbed: all ways are tried again */
    if (way == ON_CALLER && job->trials[way] == FEWEST)
        job->is_divided = divide(job);
    for (int each = SUBMITTED; each < WAYS; ++each)
        if (job->typical_ns[each] && job->typical_ns[each] < least_ns)
            least_ns = job->typical_ns[each];
    int is_early = least_ns == job->typical_ns[ON_CALLER] && least_ns <= EARLY_NS &&
                   job->trials[ON_CALLER] >= FEWEST_FASTER && 3 * least_ns <= 2 * job->typical_ns[SUBMITTED];
    for (int each = SUBMITTED; each < WAYS; ++each)
        if (job->trials[each] && job->trials[each] < TRIALS &&
            (is_early || is_slower(job->typical_ns[each], least_ns, job->trials[each])))
            job->trials[each] = TRIALS;
    /* Among callers of brief runs each run that releases the interpreter's lock waits for all of them: a caller whose
     * runner is new would hardly make a run until all ways are tried. After such waits runs take longer, too. */
    int is_proven = job->trials[ON_CALLER] >= TRIALS && job->typical_ns[ON_CALLER] < job->typical_ns[SUBMITTED];
    int is_urgent = job->company && job->trials[ON_CALLER] >= FEWEST;
    job->is_brief = took_ns <= LONGEST_NS && ((is_proven && job->typical_ns[ON_CALLER] <= BRIEF_NS) ||
                                              (is_urgent && job->typical_ns[ON_CALLER] <= 2 * BRIEF_NS));
}
