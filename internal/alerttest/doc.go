// Package alerttest holds the alert rules and the dashboard in docs to the metrics that there are: each name and each label that
// they have is in the golden files of package promfarsync, and each rule fires on the series that it is made for, by Prometheus' own
// engine. It is a module of its own, so that no other needs Prometheus.
package alerttest
