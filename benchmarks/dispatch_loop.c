/* SPDX-License-Identifier: Apache-2.0
 *
 * What benchmarks/dispatch.py compares with: the loop that one would write by hand over dpctl's C interface.
 */
#include <stddef.h>
#include <stdint.h>

typedef void *ref;
typedef ref (*submit_fn)(ref kernel, ref queue, void **arguments, const int32_t *types, size_t count,
                         const size_t range[3], size_t dimensions, const ref *depends, size_t depends_count);
typedef void (*event_fn)(ref event);

/* Submit `count` kernels of three arrays to `queues[lane[i]]` and wait for all. `before` lists, from `starts[i]` to
 * `starts[i + 1]`, the kernels that the i-th waits for; it is given their events. */
void run_by_hand(submit_fn submit, event_fn wait, event_fn delete, ref kernel, const ref *queues, const int64_t *lane,
                 const int64_t *arrays, void **memory, const int64_t *starts, const int64_t *before, int64_t count,
                 size_t items, ref *events)
{
    static const int32_t types[3] = {10, 10, 10}; /* DPCTL_VOID_PTR */
    const size_t range[3] = {items, 1, 1};
    for (int64_t i = 0; i < count; ++i) {
        ref depends[64];
        void *arguments[3];
        size_t waits = 0;
        for (int64_t k = starts[i]; k < starts[i + 1] && waits < 64; ++k)
            depends[waits++] = events[before[k]];
        for (int k = 0; k < 3; ++k)
            arguments[k] = memory[arrays[3 * i + k]];
        events[i] = submit(kernel, queues[lane[i]], arguments, types, 3, range, 1, depends, waits);
    }
    for (int64_t i = 0; i < count; ++i)
        wait(events[i]);
    for (int64_t i = 0; i < count; ++i)
        delete(events[i]);
}
