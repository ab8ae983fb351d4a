"""Hypothesis: at a desk new examples each time; in CI the same ones, so that what landed yesterday passes today."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
