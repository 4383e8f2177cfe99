// Package sqlstore is what farsync's drivers for SQL databases share: a [Session] over statements that each driver writes in
// its own dialect, the [Waiters] of its Watches, and what errors mean.
//
// A driver implements [DB], embeds the Session in its own, and adds what no two databases do alike: how a session is opened,
// renewed and ended, and how waiters are woken. These are the statements that the Session runs, by name. Entries are
// read from the columns id, queue, kind, units, revision, version, since, value, session, with since in microseconds of the time of
// day, 0 if unknown, and an empty session if there is none.
//
//	create    id, queue, session, kind, units, value, since    inserts nothing if the session is over, or the ID is there
//	ahead     queue, id, limit    entry and all ahead of it, or the queue if id is empty; newest first, without values
//	list      queue, limit        entries, oldest first
//	find      id                  the entry
//	replace   id, version, kind, value    the entry as it is then, if it had that version; a NULL value stays as it was
//	delete    id
//	register  queue               value, version
//	write     queue, value, version, id   inserts nothing if the register has another version, or the entry is not there
//	owned     session, queues     entries; the queues are a JSON array
//	survey    prefix, after, limit        entries of whole queues
//	tell      id, words
//	heard     id                  words
//	sight     targets, queue, revision    of each target: ID, moved, next, stray; see [Session.Watch]
//	watch     targets, session    has the session notified, once
package sqlstore

import "strings"

// Statements returns the statements of a file by their names. A line "-- name: create" begins the statement create, which
// ends with the next such line.
func Statements(file string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(file, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		all[name] = text
	}
	return all
}
