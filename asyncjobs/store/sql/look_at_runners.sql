-- Every runner's beat, and whether a job names a runner that does not exist.
SELECT l.ids, l.beats, l.machines, l.pids, l.orphans FROM asyncjobs.look_at_runners() AS l
