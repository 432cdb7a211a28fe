"""Parts of the sanitizer: accesses, clocks, races, flags, definedness of bytes, global memory, habits, report."""
