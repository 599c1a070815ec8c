"""`python -m epochmq`: the same as the command `epochmq`."""

from epochmq.admin.cli import main

if __name__ == "__main__":
    main()
