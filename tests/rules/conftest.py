"""How hypothesis runs here: no deadline on a busy machine, and a failure can be repeated from what it prints."""

from hypothesis import settings

settings.register_profile("rules", deadline=None, max_examples=100, print_blob=True)
settings.load_profile("rules")
