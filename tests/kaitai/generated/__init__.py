"""Readers compiled from specs/ksy by build.mjs. Not edited by hand."""
