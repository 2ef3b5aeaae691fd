"""The probe: ticks that say when they were sent.

`route` is the view, `plan` what it can be asked, `ticks` what is on the wire (the doctor reads it), `records` who left,
and when that was noticed.
"""
