# SPDX-License-Identifier: Apache-2.0
"""Where items lie and when they are where: the copies that tasks on different devices need.

An item is made in one space. It can be had there at once, and in any other space after a copy, which starts when the
item is made: ``available(item, space)`` is one time for all tasks that read it there, so a copy is made once and used
by every later reader. A device that reaches several spaces reads wherever the item is first; an array that is updated
stays in the space it is read in, a fresh one is made in the home space of its device.
"""

from __future__ import annotations

from syclsched.scheduling.problem import NOTHING, Problem


class Placement:
    """The whereabouts of all items while a schedule grows.

    Times are kept in *columns*, one for each distinct set of spaces that a device reaches, so that devices which see
    the same memory share the work: `column` gives a device's.

    Parameters
    ----------
    problem : Problem
        What is being scheduled.
    """

    def __init__(self, problem: Problem) -> None:
        self._reads = problem.reads
        self._makes = problem.makes
        self._reaches = problem.reaches
        self._nbytes = [item.nbytes for item in problem.items]
        self._origin = [problem.input_space if item.producer == NOTHING else NOTHING for item in problem.items]
        self._made_s = [0.0] * len(problem.items)
        self._rows: list[list[float] | None] = [None] * len(problem.items)
        self._lines = [
            tuple(zip(latency_s, s_per_byte, strict=True))
            for latency_s, s_per_byte in zip(problem.copy_latency_s, problem.copy_s_per_byte, strict=True)
        ]
        columns: dict[tuple[int, ...], int] = {(space,): space for space in range(len(problem.spaces))}
        self.column = [columns.setdefault(reached, len(columns)) for reached in problem.reaches]
        self._wide = list(columns)[len(problem.spaces) :]

    def available(self, item: int) -> list[float]:
        """Return when an item can be read, by column, in seconds.

        Parameters
        ----------
        item : int
            An item that is there from the start, or whose producer has been placed.

        Returns
        -------
        list of float
            Infinity where there is no way to. Not to be changed.
        """
        row = self._rows[item]
        if row is None:
            made_s, nbytes = self._made_s[item], self._nbytes[item]
            if nbytes:
                lines = self._lines[self._origin[item]]
                row = [made_s + (latency_s + nbytes * s_per_byte) for latency_s, s_per_byte in lines]
            else:
                row = [made_s] * len(self._lines)
            row.extend([min([row[space] for space in reached]) for reached in self._wide])
            self._rows[item] = row
        return row

    def ready(self, task: int) -> list[float] | None:
        """Return when all items of a task can be read, by column, in seconds.

        Parameters
        ----------
        task : int
            A task whose data predecessors have all been placed.

        Returns
        -------
        list of float or None
            None if it reads nothing. Not to be changed.
        """
        reads = self._reads[task]
        if not reads:
            return None
        if len(reads) == 1:
            return self.available(reads[0])
        return list(map(max, *map(self.available, reads)))

    def space_of(self, item: int, device: int) -> int:
        """Return the space in which a device reads an item.

        Parameters
        ----------
        item, device : int
            The item must have been made.

        Returns
        -------
        int
            The space it was made in, if the device reaches that; else the reached one it can be in first, the home
            before the others.
        """
        reached = self._reaches[device]
        origin = self._origin[item]
        if origin in reached or len(reached) == 1:
            return origin if origin in reached else reached[0]
        return min(reached, key=self.available(item).__getitem__)

    def origin_of(self, item: int) -> int:
        """Return the space an item was made in; `NOTHING` if it has not been made."""
        return self._origin[item]

    def place(self, task: int, device: int, finish_s: float) -> None:
        """Put what a task makes where it makes it.

        Parameters
        ----------
        task, device : int
            Which task was placed, and where.
        finish_s : float
            When it finishes.
        """
        for item, replaces in self._makes[task]:
            if replaces == NOTHING:
                self._origin[item] = self._reaches[device][0]
            else:
                self._origin[item] = self.space_of(replaces, device)
            self._made_s[item] = finish_s
