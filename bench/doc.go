// Package bench measures farsync beside its peers, all in one run on one machine, with bodies that are the same for
// all. Figures of different runs do not compare; ratios within one do.
//
//	make bench
package bench
