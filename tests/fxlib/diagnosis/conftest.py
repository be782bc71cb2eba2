"""No detector may fail: `guarded` only logs it, for the user's sake."""

import logging

import pytest


@pytest.fixture(autouse=True)
def no_detector_fails(caplog):
    yield
    records = [record for record in caplog.get_records("call") if record.name == "fxlib.diagnosis.engine.run"]
    failed = [record for record in records if record.levelno >= logging.ERROR]
    assert not failed, failed[0].exc_text or failed[0].getMessage()
