"""What is the Doctor page's own: its fields and what they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.jobs.doctor_config import DoctorJobConfig
from dashboard.pages.job_form import DrafterFormHandlers
from dashboard.presenters.doctor import GROUPS, doctor_fields, doctor_name


class DoctorHandlers(DrafterFormHandlers):
    kind, config, start, groups = "doctor", DoctorJobConfig, "Diagnose", GROUPS
    named, described = ("tree", "answers", "cost"), staticmethod(doctor_fields)

    def name_of(self, data: Mapping[str, Any]) -> str:
        return doctor_name(data)
