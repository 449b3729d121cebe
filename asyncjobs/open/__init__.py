"""An app from its open to its close: which app is meant, what it holds, and how its jobs are run."""
