"""Worlds that single chapters solve exactly. What they are built on, and what is shared, is `minerva_lite.worlds`."""
