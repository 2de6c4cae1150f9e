"""How much memory there is.

A request that cannot fit is refused early.
"""

from __future__ import annotations

import os
from pathlib import Path


def machine_memory() -> int:
    """Return how many bytes of memory the machine has.

    16 GiB if that is unknown.
    """
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**34


def available_memory() -> int:
    """Return how many bytes can be allocated without swapping.

    The limits of a container count, too.
    """
    try:
        page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62  # unknown on this system: allow everything
    candidates = [_reclaimable() or page * pages]
    group = "/sys/fs/cgroup/memory"
    limit, used = _number(f"{group}.max", ""), _number(f"{group}.current", "")
    if limit is not None and used is not None:
        cached = _number(f"{group}.stat", "inactive_file") or 0
        candidates.append(max(limit - used + cached, 0))
    return min(candidates)


def _reclaimable() -> int | None:
    """Linux's own estimate, which includes file caches that it can drop."""
    kibibytes = _number("/proc/meminfo", "MemAvailable:")
    return None if kibibytes is None else 1024 * kibibytes


def _number(path: str, name: str) -> int | None:
    """Return the number after `name` in a file of the system, or None."""
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return int(line.removeprefix(name).split()[0])
    except (OSError, ValueError, IndexError):
        pass
    return None
