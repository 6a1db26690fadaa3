"""The pages of the project, read and made by tests."""
