"""`tacit demo` without its processes: what it draws, and what it refuses. They run in tests/end_to_end."""

from tacit.cli.demo.tables import scale, strip


def test_mistakes(run):
    assert "epsilon must be a positive number" in run("demo", "--epsilon", 0, code=2).stderr
    assert "is not a whole number" in run("demo", "--agents", 1, code=2).stderr
    assert "does not begin with a graph family" in run("demo", "--topology", "moon", code=2).stderr


def test_the_strip_shows_where_agents_are():
    assert strip([15.0, 25.0]) == "·" + " " * 37 + "·"
    assert strip([20.0] * 3 + [99.0]) == " " * 19 + ":" + " " * 18 + "·"
    assert strip([20.0] * 8)[19] == "#"
    assert scale(20.0)[19] == "▼"
