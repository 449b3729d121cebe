"""The runtime: tasks, and everything that waits.

The shape of a runner: a coordinator per queue (`coordinator.py`) takes slots of semaphores (`slots.py`), claims that many
through the runner's one call line (`call_line.py`), and starts a task per job (`attempt.py`); what happens to keys goes through
partitioned actors (`keys.py`). What a runner is made of, in order: `runner_parts.py`.
"""
