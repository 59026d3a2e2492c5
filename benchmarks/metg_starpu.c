/* SPDX-License-Identifier: Apache-2.0
 *
 * The rival of metg.py in C: the same graph on StarPU, whose dependencies follow from the data.
 *
 *     metg_starpu WIDTH STEPS REPEAT TURNS... < waits
 *
 * Standard input has, for each row and column, how many columns of the row before a task waits for, and which. Prints
 * for each TURNS the median seconds of a run.
 */
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_WAITS = 16 };

static void compute(void *buffers[], void *argument)
{
    long turns;
    starpu_codelet_unpack_args(argument, &turns);
    double *out = (double *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    double x = *(const double *)STARPU_VARIABLE_GET_PTR(buffers[1]);
    for (long i = 0; i < turns; ++i)
        x = x * 0.999999 + 1e-6;
    *out = x;
}

static struct starpu_perfmodel model = {.type = STARPU_HISTORY_BASED, .symbol = "metg_compute"};
static struct starpu_codelet codelet = {
    .cpu_funcs = {compute}, .nbuffers = STARPU_VARIABLE_NBUFFERS, .model = &model, .name = "compute"};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **given)
{
    int width = atoi(given[1]), steps = atoi(given[2]), repeat = atoi(given[3]);
    int(*waits)[MOST_WAITS + 1] = malloc(sizeof *waits * width * steps);
    for (int task = 0; task < width * steps; ++task) {
        if (scanf("%d", &waits[task][0]) != 1 || waits[task][0] > MOST_WAITS)
            return 2;
        for (int i = 1; i <= waits[task][0]; ++i)
            if (scanf("%d", &waits[task][i]) != 1)
                return 2;
    }
    if (starpu_init(NULL))
        return 3;
    double *values = calloc(2 * width, sizeof *values), times[repeat];
    starpu_data_handle_t *handles = malloc(2 * width * sizeof *handles);
    for (int i = 0; i < 2 * width; ++i)
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)&values[i], sizeof *values);
    for (int argument = 4; argument < count; ++argument) {
        long turns = atol(given[argument]);
        for (int run = -1; run < repeat; ++run) { /* the first is not counted */
            double begun = starpu_timing_now();
            for (int step = 0; step < steps; ++step)
                for (int place = 0; place < width; ++place) {
                    const int *waited = waits[step * width + place];
                    struct starpu_data_descr data[MOST_WAITS + 2];
                    int used = 0;
                    data[used++] = (struct starpu_data_descr){handles[2 * place + step % 2], STARPU_W};
                    data[used++] = (struct starpu_data_descr){handles[2 * place + (step + 1) % 2], STARPU_R};
                    for (int i = 1; i <= waited[0]; ++i)
                        if (waited[i] != place)
                            data[used++] =
                                (struct starpu_data_descr){handles[2 * waited[i] + (step + 1) % 2], STARPU_R};
                    if (starpu_task_insert(&codelet, STARPU_DATA_MODE_ARRAY, data, used, STARPU_VALUE, &turns,
                                           sizeof turns, 0))
                        return 4;
                }
            starpu_task_wait_for_all();
            if (run >= 0)
                times[run] = (starpu_timing_now() - begun) * 1e-6;
        }
        qsort(times, repeat, sizeof *times, compare);
        printf("%ld %.9f\n", turns, times[repeat / 2]);
        fflush(stdout);
    }
    for (int i = 0; i < 2 * width; ++i)
        starpu_data_unregister(handles[i]);
    starpu_shutdown();
    return 0;
}
