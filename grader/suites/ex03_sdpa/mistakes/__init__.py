"""What goes wrong in scaled dot-product attention, by name.

A mistake is a right function with one step changed: `check`, `widen`, `score`, `hide`, `shift`,
`total`, `clear`, `mix`, `narrow`. What is written with `xp` can be a mistake in NumPy as well.
"""
