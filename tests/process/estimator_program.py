"""A controller for the test that kills one: has a child, prints its process id, and waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pytest_paddleapi.process.estimator import Estimator
from pytest_paddleapi.process.estimator_messages import EstimatorOptions


def main() -> None:
    here = str(Path(__file__).parent)
    environment = {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}
    estimator = Estimator(EstimatorOptions(), estimator="light_estimator:LightEstimator", environment=environment)
    estimator.start().submit(['paddle.hang(Tensor([65536, 65536],"float32"), )'])
    estimator.poll()
    print(estimator.pid, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
