"""Failures of detectors and shape rules, which are only logged for users, are errors here."""

import logging

import pytest


@pytest.fixture(autouse=True)
def nothing_fails_unseen(caplog):
    yield
    records = [record for record in caplog.get_records("call") if record.name.startswith("fxlib.diagnosis.")]
    failed = [record for record in records if record.levelno >= logging.ERROR]
    assert not failed, failed[0].exc_text or failed[0].getMessage()
