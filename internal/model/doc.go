// Package model explores the protocol of a queue: every order in which its clients, its service and some faults can
// take their steps.
//
// Explore is the explorer, and knows no locks. A Queue is the protocol, asked of the library's own rules; a Lease is
// one session in time; a Handover is the protocol of package etcd, in which a release names the next holder. Package
// recipe runs them, in its tests, for its rules are its own. docs/reports/MODEL.md says what is modelled, and what is
// not.
package model
