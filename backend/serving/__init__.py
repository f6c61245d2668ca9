"""Serving engines as they really run: a process of its own, asked over HTTP. Nothing here imports one."""
