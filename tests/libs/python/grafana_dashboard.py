"""Loads a dashboard as Grafana's own library knows it.

Argument: the file. Prints it as the library writes it again: what it does not know is missing there.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

with open(sys.argv[1], encoding="utf-8") as file:
    print(JSONEncoder().encode(Dashboard.from_json(json.load(file))))
