"""Programs that enqueue and run jobs, each its own way, and are told what to do by the lab: `speaking` has the protocol."""
