"""`tacit demo` without its processes: what it refuses. They run in tests/end_to_end."""


def test_mistakes(run):
    assert "epsilon must be a positive number" in run("demo", "--epsilon", 0, code=2).stderr
    assert "is not a whole number" in run("demo", "--agents", 1, code=2).stderr
    assert "does not begin with a graph family" in run("demo", "--topology", "moon", code=2).stderr
    assert "keepers need a server" in run("demo", "--topology", "ring", "--keepers", 2, code=2).stderr


def test_a_machine_is_not_filled_with_processes(run):
    said = run("demo", "--agents", 99, "--keepers", 2, code=2).stderr
    assert "at most 100 agents and keepers, got 101" in said
