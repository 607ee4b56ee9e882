"""The command line: thin commands, one file each, that parse, call the API and print."""
