"""How hypothesis runs here: no deadline on a busy machine, and a failure can be repeated from what it prints.

At a desk there are new examples each time; in CI the same ones, so that what landed yesterday passes today.
"""

import os

from hypothesis import settings

settings.register_profile("nextdue", deadline=None, max_examples=100, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("nextdue")
