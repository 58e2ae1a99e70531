"""Carries out a plan's actions, one file per kind of action, each journalled before its first outside call."""
