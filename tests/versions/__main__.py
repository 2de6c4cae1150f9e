"""Write the bytes of the version that is about to be released."""

import json

from tests.versions import HERE, fresh

from tacit import __version__

(HERE / f"{__version__}.json").write_text(json.dumps(fresh(), indent=1) + "\n", encoding="utf-8")
