"""``python -m ascend_sim``: the command ``ascend-sim``."""

from ascend_sim.cli.main import main

raise SystemExit(main())
