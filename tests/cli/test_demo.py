"""`tacit demo` without its processes: what it refuses. They run in tests/end_to_end."""


def test_a_machine_is_not_filled_with_processes(run):
    assert "--agents" in run("demo", "--agents", 1, code=2).stderr
    assert "100" in run("demo", "--agents", 101, code=2).stderr
    assert "10" in run("demo", "--keepers", 11, code=2).stderr
