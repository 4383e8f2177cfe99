// Program bench measures farsync beside its peers: all in one run on one machine, with bodies that are the same for all.
//
//	make bench                                # everything; it prints for how long
//	make bench ONLY=etcd/contended ROUNDS=3   # a part of it
//
// A scene is one body with a number of contenders on one store. In each round every peer of the scene runs once, one after the
// other, so that what the machine does meanwhile meets all of them; a figure is the median over the rounds, and a ratio the
// median of the ratios within a round. Figures of different scenes do not compare unless they come from one run.
//
// Requests and bytes are counted in a further round that is not timed, through a proxy. Processor time is from /proc, of this
// process and of the servers apart.
//
// The figures are kept in docs/reports/performance/figures.json. From there the tables of docs/reports/PERFORMANCE.md and the
// plots are written; a part that is measured again replaces its own figures alone.
//
//	make load                                 # callers who give up, crowds; a table for each store
//	make load ONLY=etcd/impatient SHORT=1
//
// A load is what many callers do to the locks of one store, for a while or until all are served, beside a stock lock. It has
// bounds for what they get, what is lost and what is left.
package main
