"""An answer that survives its connection: produced once, recorded as it is produced, followed by any number of readers.

`streams` is the whole of it for one blueprint. A `Generation` produces an answer into its `Live`, which lives in the
process that produces it; the `Recorder` brings what is new there into the store; a reader follows the one or the other.
"""

from __future__ import annotations
