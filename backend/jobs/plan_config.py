"""What a measuring job is told: the settings of the training that is planned, and how long it may take. Torch-free."""

from __future__ import annotations

from pydantic import Field

from backend.jobs.configs import TrainJobConfig


class PlanJobConfig(TrainJobConfig):
    """A few seconds of a training, to know what all of it will take."""

    seconds: float = Field(10.0, gt=0, le=600, description="how long to measure, loading the target not counted")
