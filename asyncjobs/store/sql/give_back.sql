-- Give back what is processing under a runner's name but does not run there.
SELECT g.id, g.queue FROM asyncjobs.give_back($1, $2, $3) AS g;
