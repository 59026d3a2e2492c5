# SPDX-License-Identifier: Apache-2.0
"""Share of the device's bandwidth or arithmetic that each kernel reaches: the table in docs/reference/kernels.md.

    python benchmarks/kernels.py [name ...] [--device cpu] [--samples 30]

Each implementation is timed alternating with a measure of the device that moves the same bytes (the triad a = b + s c)
or does multiply-adds in registers (the peak of arithmetic). The result is the ratio of the medians, and half of
the interquartile range of the pairs' ratios, so that another load on the machine affects both. Times are the
device's own (SYCL events), for library calls the host's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from common import parser

import syclsched
from syclsched import oneapi
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.errors import CapabilityError
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Operation, Signature
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.profiling.measure.microkernels import fma_flops, fma_operation, triad_operation

MIB = 1 << 20
#: Lines that move more bytes are measured from memory: before each sample, `SWEPT` bytes are read. Otherwise a
#: processor's last cache may keep one of two sets of arrays and stream the other, which makes up to a factor of 2.
LARGE, SWEPT = 32 * MIB, 512 * MIB


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Parameters
    ----------
    name : str
        The measured operation in words.
    operation : Operation
        With all its implementations.
    arrays : dict
        Shape and dtype of each array, by parameter.
    bound : str
        "bytes": compared with the triad; "flops": with multiply-adds in registers.
    constants : frozenset of str
        The arrays that are known beforehand, like a model's weights.
    """

    name: str
    operation: Operation
    arrays: dict[str, tuple[tuple[int, ...], str]]
    bound: str = "bytes"
    constants: frozenset[str] = frozenset()


def line(
    name: str,
    operation: Operation,
    bound: str = "bytes",
    dtype: str = "float32",
    constants: tuple[str, ...] = (),
    **shapes: Any,
) -> Line:
    """Return a line; an array given as a shape alone has the common dtype."""
    arrays = {
        key: value if isinstance(value[-1], str) else (value, dtype) for key, value in shapes.items() if value != ()
    }
    arrays |= {key: ((), dtype) for key, value in shapes.items() if value == ()}
    return Line(name, operation, arrays, bound, frozenset(constants))


def tensor_lines() -> Iterator[Line]:
    """Return lines of element-wise operations, reductions, and moves of elements."""
    from syclsched.kernels.tensor.elementwise import elementwise

    n = 8 * MIB
    both = elementwise(("add", 0, 1), 2)
    yield line("add", both, y=(n,), x0=(n,), x1=(n,))
    yield line("relu", elementwise(("relu", 0), 1), y=(n,), x0=(n,))
    yield line("add of a bias, channels last", both, y=(n // 256, 256), x0=(n // 256, 256), x1=(256,))
    yield line(
        "scale and shift of channels",
        elementwise(("add", ("mul", 0, 1), 2), 3),
        y=(8, 64, n // 512),
        x0=(8, 64, n // 512),
        x1=(64, 1),
        x2=(64, 1),
    )
    yield line("gelu of 5 operators", elementwise(_gelu(), 2), y=(n // 3072, 3072), x0=(n // 3072, 3072), x1=(3072,))
    yield line("gelu", elementwise(("gelu", 0), 1), y=(n,), x0=(n,))
    yield line("sigmoid", elementwise(("sigmoid", 0), 1), y=(n,), x0=(n,))
    yield line("add, float64", both, dtype="float64", y=(n // 2,), x0=(n // 2,), x1=(n // 2,))
    yield line("cast to float32", elementwise(("cast", "float32", 0), 1), y=(n,), x0=((n,), "int64"))


def reduction_lines() -> Iterator[Line]:
    """Return lines of reductions, prefix sums, and searches along an axis."""
    from syclsched.kernels.tensor.reductions.arg import arg
    from syclsched.kernels.tensor.reductions.reduce import reduce
    from syclsched.kernels.tensor.reductions.reduce_whole import reduce_whole
    from syclsched.kernels.tensor.reductions.scan import scan_sum
    from syclsched.kernels.tensor.reductions.scan_parts import scan_in_parts

    n = 16 * MIB
    yield line("sum of rows of 1,024", reduce("sum", (1,)), y=(n // 1024,), x=(n // 1024, 1024))
    yield line("maximum of rows of 1,024", reduce("max", (1,)), y=(n // 1024,), x=(n // 1024, 1024))
    yield line("sum of 64 long rows", reduce("sum", (1,)), y=(64,), x=(64, n // 64))
    yield line("sum of all", reduce_whole("sum"), parts=(64,), x=(n,), y=())
    yield line("mean of columns", reduce("mean", (0,)), y=(n // 256,), x=(256, n // 256))
    yield line("maximum of columns", reduce("max", (0,)), y=(n // 256,), x=(256, n // 256))
    halved = {"y": (64, 512), "x": (64, 256, 512)}
    yield line("maximum of columns, float64", reduce("max", (1,)), dtype="float64", **halved)
    yield line("product of rows, int32", reduce("prod", (1,)), dtype="int32", y=(n // 1024,), x=(n // 1024, 1024))
    yield line("logarithm of sums of rows", reduce("logsumexp", (1,)), y=(n // 1024,), x=(n // 1024, 1024))
    yield line("logarithm of sums of columns", reduce("logsumexp", (1,)), y=(64, 1024), x=(64, 256, 1024))
    yield line("mean over an image, channels last", reduce("mean", (1, 2)), y=(32, 512), x=(32, 32, 32, 512))
    yield line("argmax of rows", arg("max", 1), y=((n // 1024,), "int64"), x=(n // 1024, 1024))
    yield line("argmax of columns", arg("max", 1), y=((64, 1024), "int64"), x=(64, 256, 1024))
    yield line("prefix sums of a line", scan_sum(0), y=(n,), x=(n,))
    yield line("prefix sums of a line, in parts", scan_in_parts(0), y=(n,), x=(n,))
    yield line("prefix sums of columns", scan_sum(1), y=(64, 256, 1024), x=(64, 256, 1024))


def moving_lines() -> Iterator[Line]:
    """Return lines of moves of elements."""
    from syclsched.kernels.tensor.concat import concat
    from syclsched.kernels.tensor.gather import gather
    from syclsched.kernels.tensor.pad import pad
    from syclsched.kernels.tensor.strided_slice import slice_of
    from syclsched.kernels.tensor.transpose import transpose

    yield line("transpose of a matrix", transpose((1, 0)), y=(4096, 2048), x=(2048, 4096))
    yield line("transpose to channels last", transpose((0, 2, 3, 1)), y=(8, 64, 64, 256), x=(8, 256, 64, 64))
    yield line("transpose of heads", transpose((0, 2, 1, 3)), y=(16, 12, 512, 64), x=(16, 512, 12, 64))
    yield line("concat of two, channels last", concat(1, 2), y=(32768, 256), x0=(32768, 64), x1=(32768, 192))
    yield line("slice", slice_of((3, 1), (1, 1)), y=(8000, 1000), x=(8192, 1024))
    yield line("pad", pad((0, 1, 1, 0, 0, 1, 1, 0)), y=(8, 66, 66, 256), x=(8, 64, 64, 256))
    yield line("gather of rows", gather(0), y=(8192, 768), x=(30000, 768), indices=((8192,), "int64"))


def _gelu() -> Any:
    x = ("add", 0, 1)
    return ("mul", ("mul", x, ("add", ("erf", ("div", x, ("const", math.sqrt(2)))), ("const", 1.0))), ("const", 0.5))


def _naive_product() -> Operation:
    """Return the naive matrix product, the reference for the one with local memory."""
    from syclsched.kernels import nn

    @syclsched.kernel
    def product(item: Any, y: Any, a: Any, b: Any) -> None:
        i, j = item.get_id(0), item.get_id(1)
        total = a[i, 0] * b[0, j]
        for k in range(1, a.shape[1]):
            total += a[i, k] * b[k, j]
        y[i, j] = total

    def launch(signature: Signature, limits: DeviceLimits) -> Launch:
        return Launch(signature.shapes["y"])

    naive = Implementation("python", "python", lambda _: product, launch)
    return replace(nn.matmul(), name="naive matmul", implementations=(naive,))


#: Input channels, extent and output channels of more 3x3 convolutions of ResNet-50, VGG-19 and Inception.
LAST_ONLY: Final = (
    (128, 28, 128),
    (64, 28, 96),
    (128, 14, 192),
    (64, 224, 64),
    (128, 112, 128),
    (256, 56, 256),
    (512, 28, 512),
    (512, 14, 512),
)


def nn_lines() -> Iterator[Line]:
    """Return lines of convolutions, products, normalisations, pooling and softmax."""
    from syclsched.kernels import nn

    relu = (("relu",),)
    for channels, extent, outputs, kernel, stride in (
        (3, 224, 64, 7, 2),
        (64, 56, 64, 3, 1),
        (256, 14, 256, 3, 1),
        (512, 7, 512, 3, 1),
        (64, 56, 256, 1, 1),
        (1024, 14, 256, 1, 1),
        *((inside, extent, outside, 3, 1) for inside, extent, outside in LAST_ONLY),
    ):
        pad = kernel // 2
        size = (extent + 2 * pad - kernel) // stride + 1
        for last in (True, False) if (channels, extent, outputs) not in LAST_ONLY else (True,):
            what = f"{kernel}x{kernel}/{stride} {channels}-{outputs} @{extent}"
            yield line(
                f"conv {what}, channels {'last' if last else 'first'}",
                nn.conv(2, (stride, stride), (pad,) * 4, channels_last=last, bias=True, activation=relu),
                "flops",
                constants=("w", "b"),
                y=(1, size, size, outputs) if last else (1, outputs, size, size),
                x=(1, extent, extent, channels) if last else (1, channels, extent, extent),
                w=(outputs, channels, kernel, kernel),
                b=(outputs,),
            )
    yield line(
        "conv 3x3 depthwise 256 @56, channels last",
        nn.conv(2, pads=(1,) * 4, groups=256, channels_last=True),
        constants=("w",),
        y=(1, 56, 56, 256),
        x=(1, 56, 56, 256),
        w=(256, 1, 3, 3),
    )
    yield line(
        "conv_transpose 4x4/2 64-32 @56, channels last",
        nn.conv_transpose(2, (2, 2), (1,) * 4, channels_last=True),
        "flops",
        constants=("w",),
        y=(1, 112, 112, 32),
        x=(1, 56, 56, 64),
        w=(64, 32, 4, 4),
    )
    square = (1024, 1024)
    yield line("matmul 1024, b known", nn.matmul(), "flops", constants=("b",), y=square, a=square, b=square)
    yield line("matmul 1024", nn.matmul(), "flops", y=square, a=square, b=square)
    yield line("matmul 1024, naive numba-dpex", _naive_product(), "flops", y=square, a=square, b=square)
    yield line("matmul 1024, a transposed", nn.matmul(transpose_a=True), "flops", y=square, a=square, b=square)
    yield line(
        "matmul 128x768x3072, b known",
        nn.matmul(bias=True, activation=(("gelu",),)),
        "flops",
        constants=("b", "c"),
        y=(128, 3072),
        a=(128, 768),
        b=(768, 3072),
        c=(3072,),
    )
    heads = {"y": (12, 128, 128), "a": (12, 128, 64), "b": (12, 128, 64)}
    yield line("matmul 12x128x64x128, b transposed", nn.matmul(transpose_b=True), "flops", **heads)
    rows = (8192, 768)
    yield line("layer_norm", nn.layer_norm(-1, 1e-5, True), y=rows, x=rows, scale=(768,), b=(768,))
    yield line("softmax of rows", nn.softmax_over(), y=rows, x=rows)
    middle = (8, 1024, 768)
    yield line("softmax of the middle axis", nn.softmax_over(1), y=middle, x=middle)
    for last in (True, False):
        where = "channels last" if last else "channels first"

        def image(channels: int, extent: int, last: bool = last) -> tuple[int, ...]:
            return (8, extent, extent, channels) if last else (8, channels, extent, extent)

        same = {"y": image(256, 56), "x": image(256, 56)}
        by_channel = dict.fromkeys(("scale", "bias"), (256,))
        known = by_channel | dict.fromkeys(("mean", "variance"), (256,))
        yield line(f"batch_norm, {where}", nn.batch_norm(channels_last=last), **same, **known)
        yield line(f"group_norm of 32, {where}", nn.group_norm(32, channels_last=last), **same, **by_channel)
        yield line(f"instance norm, {where}", nn.group_norm(256, channels_last=last), **same, **by_channel)
        yield line(f"lrn, {where}", nn.lrn(channels_last=last), **same)
        pool = nn.pool("max", (3, 3), (2, 2), (1,) * 4, channels_last=last)
        yield line(f"max pool 3x3/2, {where}", pool, y=image(64, 56), x=image(64, 112))
        pool = nn.pool("average", (3, 3), (1, 1), (1,) * 4, channels_last=last)
        yield line(f"average pool 3x3, {where}", pool, y=image(64, 112), x=image(64, 112))
        pool = nn.pool("average", (7, 7), channels_last=last)
        yield line(f"global average pool, {where}", pool, y=image(4096, 1), x=image(4096, 7))
        seen = (4, 56 * 56, 9 * 64) if last else (4, 9 * 64, 56 * 56)
        unfold = nn.im2col((3, 3), pads=(1,) * 4, channels_last=last)
        yield line(f"im2col 3x3, {where}", unfold, y=seen, x=(4, *image(64, 56)[1:]))
        scales = (1, 2, 2, 1) if last else (1, 1, 2, 2)
        for mode in ("nearest", "linear"):
            grow = nn.resize(mode, "half_pixel", scales=scales)
            yield line(f"resize {mode} by 2, {where}", grow, y=image(64, 112), x=image(64, 56))


#: Lines of the table by family.
FAMILIES: dict[str, Callable[[], Iterator[Line]]] = {
    "elementwise": tensor_lines,
    "reduction": reduction_lines,
    "moving": moving_lines,
    "nn": nn_lines,
}


class Bench:
    """A queue on a device, and its reference measurements."""

    def __init__(self, kind: str) -> None:
        oneapi.load()
        import dpctl

        device = dpctl.get_devices(device_type=kind)[0]
        self.queue = dpctl.SyclQueue(device, property=["in_order", "enable_profiling"])
        self.limits = DeviceLimits(device.max_work_group_size, device.max_compute_units, device.local_mem_size)
        self.fp64 = device.has_aspect_fp64
        self.name = device.name.strip()

    def array(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an array of small numbers."""
        dpt = usm_arrays()

        numbers = (4 * np.random.default_rng(1).random(1 << 16) + 1).astype(dtype)
        return dpt.asarray(np.resize(numbers, shape), sycl_queue=self.queue, usm_type="device")

    def sample(
        self,
        operation: Operation,
        implementation: Implementation,
        arrays: dict[str, Any],
        constants: frozenset[str] = frozenset(),
        **scalars: Any,
    ) -> Callable[[], float]:
        """Return a function that times one launch, in seconds."""
        signature = Signature(
            {name: tuple(each.shape) for name, each in arrays.items()},
            {name: each.dtype.name for name, each in arrays.items()},
            scalars,
            constants,
        )
        wrong = operation.check(signature) if operation.check is not None else None
        if wrong is not None:
            raise ValueError(f"{operation.name}: {wrong}")
        if implementation.prepare is not None and constants:
            dpt = usm_arrays()

            known = {name: dpt.asnumpy(arrays[name]) for name in constants}
            made = implementation.prepare(signature, self.queue, known)
            arrays = arrays | {
                name: dpt.asarray(each, sycl_queue=self.queue) if isinstance(each, np.ndarray) else each
                for name, each in made.items()
            }
        submission = compile_task(operation, implementation, signature, self.queue, self.limits).bind(arrays)

        def seconds() -> float:
            start = time.perf_counter()
            event = submission.submit(self.queue, [])
            event.wait()
            wall = time.perf_counter() - start
            if not implementation.is_kernel:
                return wall
            return (event.profiling_info_end - event.profiling_info_start) * 1e-9

        for _ in range(3):
            seconds()
        return seconds

    @lru_cache(maxsize=64)  # noqa: B019 - one bench a process
    def triad(self, moved: int) -> tuple[Callable[[], float], float]:
        """Return a function that times a triad, and its bytes: the given number, within a page."""
        dtype = "float64" if self.fp64 else "float32"
        # In whole groups of any size: otherwise the runtime selects small ones.
        count = max(moved // (3 * np.dtype(dtype).itemsize) // 8192, 1) * 8192
        operation = triad_operation(dtype)
        arrays = {name: self.array((count,), dtype) for name in ("a", "b", "c")}
        return self.sample(operation, operation.implementations[0], arrays, s=3.0), 3.0 * count * np.dtype(
            dtype
        ).itemsize

    @lru_cache(maxsize=1)  # noqa: B019
    def sweep(self) -> Callable[[], float]:
        """Return a function that reads more memory than caches hold."""
        return self.triad(SWEPT)[0]

    @lru_cache(maxsize=64)  # noqa: B019
    def arithmetic(self, dtype: str) -> tuple[Callable[[], float], float]:
        """Return a function that times multiply-adds in registers, and their number of operations."""
        items, iterations = 16 * 1024, 2000
        operation = fma_operation(dtype)
        arrays = {"x": self.array((items,), dtype), "c": self.array((2,), dtype), "y": self.array((items,), dtype)}
        return self.sample(operation, operation.implementations[0], arrays, n=iterations), fma_flops(items, iterations)

    def refuses(self, each: Line, implementation: Implementation) -> bool:
        """Return whether an implementation refuses a line."""
        refuses = implementation.requires.refuses
        shapes = {name: shape for name, (shape, _) in each.arrays.items()}
        dtypes = {name: dtype for name, (_, dtype) in each.arrays.items()}
        return refuses is not None and refuses(Signature(shapes, dtypes, {}, each.constants)) is not None

    def measure(self, each: Line, implementation: Implementation, samples: int) -> tuple[float, float, float]:
        """Return seconds, the fraction of the device's peak, and half of its spread."""
        arrays = {name: self.array(shape, dtype) for name, (shape, dtype) in each.arrays.items()}
        ours = self.sample(each.operation, implementation, arrays, each.constants)
        shapes = {name: shape for name, (shape, _) in each.arrays.items()}
        work = each.operation.work(Signature(shapes, {name: dtype for name, (_, dtype) in each.arrays.items()}))
        if each.bound == "bytes":
            theirs, amount = self.triad(int(work.bytes))
            done = work.bytes
        else:
            theirs, amount = self.arithmetic(work.dtype)
            done = work.flops
        sweep = self.sweep() if each.bound == "bytes" and work.bytes >= LARGE else float
        pairs = []
        for _ in range(samples):
            pair = []
            for timed in (ours, theirs):
                sweep()
                pair.append(timed())
            pairs.append(tuple(pair))
        mine, best = (statistics.median(column) for column in zip(*pairs, strict=True))
        fractions = sorted((done / a) / (amount / b) for a, b in pairs)
        spread = (fractions[3 * samples // 4] - fractions[samples // 4]) / 2
        return mine, (done / mine) / (amount / best), spread


def main() -> None:
    arguments = parser(__doc__, device="cpu", samples=30)
    arguments.add_argument("names", nargs="*", help="families, or parts of lines' names; all if not given")
    options = arguments.parse_args()
    bench = Bench(options.device)
    print(f"# {bench.name}, {options.samples} samples\n")
    print("| kernel | implementation | ms | of the best | ± | held against |\n|---|---|---|---|---|---|")
    for family, lines in FAMILIES.items():
        for each in lines():
            if options.names and not any(name == family or name in each.name for name in options.names):
                continue
            for implementation in each.operation.implementations:
                kinds = implementation.requires.device_kinds
                if implementation.kind == "host" or (kinds and options.device not in kinds):
                    continue
                if bench.refuses(each, implementation):
                    continue
                try:
                    seconds, fraction, spread = bench.measure(each, implementation, options.samples)
                except CapabilityError:  # it does not support this shape
                    continue
                held = "triad" if each.bound == "bytes" else "multiply-adds"
                print(
                    f"| {each.name} | {implementation.name} | {1e3 * seconds:.3f} | {100 * fraction:.0f} % "
                    f"| {100 * spread:.0f} | {held} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
