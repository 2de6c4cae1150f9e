"""Hospitals: four questions of real records, and whom a patient must trust."""

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def asked(ran):
    return ran("hospitals", seed=2012)


def test_the_records_are_those_of_the_source(asked):
    records = asked.module.radii()
    assert len(records) == 569
    assert (records.min(), records.max()) == (6.981, 28.11)  # as the source says
    assert records.mean() == pytest.approx(14.127, abs=5e-4)


def test_every_interval_has_the_truth_and_trust_makes_it_narrow(asked):
    module = asked.module
    records = module.radii()
    widths = []
    for numbers in asked.found.values():
        for name, question in module.QUESTIONS.items():
            for part, true in module.truth(question, records).items():
                low, high = (numbers[f"{name}: {part}: {end}"] for end in ("low", "high"))
                assert low <= true <= high
        widths.append(numbers["mean: mean: high"] - numbers["mean: mean: low"])
    nobody, hospital, keepers = widths
    assert nobody == pytest.approx((569 / 25) ** 0.5 * hospital, rel=0.02)  # the noise of 569 or of 25
    assert keepers < hospital / 3


def test_the_exact_answers_are_those_of_pandas(asked):
    module = asked.module
    records = module.radii()
    assert module.truth(module.QUESTIONS["mean"], records)["mean"] == pytest.approx(records.mean())
    variance = module.truth(module.QUESTIONS["variance"], records)["variance"]
    assert variance == pytest.approx(records.var(ddof=0))
    counts = list(module.truth(module.QUESTIONS["histogram"], records).values())
    assert counts == pytest.approx(
        pd.cut(records, module.EDGES, right=False).value_counts(sort=False).tolist()
    )


def test_the_table_and_the_picture_are_there(asked):
    assert asked.row("median")[0] == "13.37"
    assert asked.picture.exists()
