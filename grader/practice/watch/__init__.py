"""Grades on every save, and shows the one exercise that is being worked on."""
