"""The checks of validate_config.py. They run with the interpreter of the release under test."""
