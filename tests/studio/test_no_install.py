"""Tests never install anything: without a browser they are skipped, and say what to do."""

import subprocess

import pytest
from tests.studio.conftest import need_browser


def test_without_a_browser_tests_are_skipped_and_nothing_is_installed(monkeypatch, tmp_path):
    def start(*_, **__):
        pytest.fail("a test started a program to get a browser")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(pytest.skip.Exception, match="make programs"):
        need_browser()
