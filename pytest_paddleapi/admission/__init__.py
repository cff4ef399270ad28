"""The parts of :mod:`pytest_paddleapi.gpu_admission`, which is the documented way in."""
