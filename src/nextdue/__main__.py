"""`python -m nextdue`."""

import sys

from nextdue.cli.main import main

sys.exit(main())
