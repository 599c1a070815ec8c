"""One file an invariant; the law is docs/INVARIANTS.md."""
