"""`flaskstream compare --serve`: both modes, kept running for the page `/compare`, and a desk that tells about them."""

from flaskstream.lab.side_by_side.servers import SideBySide, side_by_side

__all__ = ["SideBySide", "side_by_side"]
