"""What goes wrong in a softmax, by name.

A mistake is a right softmax with one step changed: `widen`, `shift`, `power`, `total`, `narrow`.
"""
