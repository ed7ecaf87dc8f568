"""A plan carried out: built in the area, judged, published, and taken back by `undo`."""
