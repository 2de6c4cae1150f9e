"""How much memory there is, by what the system says."""

from tacit.base import memory


def test_memory_is_known_here():
    assert 1 << 20 < memory.available_memory() < 1 << 50


def test_a_container_with_less_memory_counts(monkeypatch):
    files = {
        ("/proc/meminfo", "MemAvailable:"): 1000,
        ("/sys/fs/cgroup/memory.max", ""): 900_000,
        ("/sys/fs/cgroup/memory.current", ""): 500_000,
        ("/sys/fs/cgroup/memory.stat", "inactive_file"): 100_000,
    }
    monkeypatch.setattr(memory, "_number", lambda path, name: files.get((path, name)))
    assert memory.available_memory() == 500_000
    files["/sys/fs/cgroup/memory.max", ""] = None  # "max": no limit
    assert memory.available_memory() == 1000 * 1024


def test_numbers_are_read_from_the_system(tmp_path):
    path = tmp_path / "stat"
    path.write_text("anon 5\ninactive_file 77 kB\n")
    assert memory._number(str(path), "inactive_file") == 77
    assert memory._number(str(path), "missing") is None
    path.write_text("max\n")
    assert memory._number(str(path), "") is None
    assert memory._number(str(tmp_path / "nothing"), "") is None
