"""Let the tests of this room import their shared helpers (`ops_judge`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
