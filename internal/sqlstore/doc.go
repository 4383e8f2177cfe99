// Package sqlstore is what farsync's drivers for SQL databases share: a [Session] over statements that each driver
// writes in its own dialect, the [Waiters] of its Watches, and what errors mean.
//
// A driver implements [DB], embeds the Session in its own, and adds what no two databases do alike: how it connects,
// and how waiters are woken. These are the statements that the Session runs, by name. Entries are read from the columns
// id, queue, kind, units, revision, version, since, value, session, with since in microseconds of the time of day, 0 if
// unknown, and an empty session if there is none. "Its ID" means that there is a row if it was done, or found.
//
//	open      id, ttl in µs, ...  its ID, and the history of the database, which may be empty; the driver may take more
//	renew     id                  as open; ends the sessions that have run out, too
//	end       id                  its ID, and a second row if entries are left, for rest
//	rest      id                  removes entries of a session that end has ended. Any text if there is more to remove
//	owners    queue, entries      of the sessions that have one of the entries, a JSON array of IDs, or one in the queue, those that
//	                              may be over: ID, and whether it has run out
//	bury      sessions            ends those that have run out. The sessions are a JSON array: with Dead those that it
//	                              reports, which are ended, too; without it those that owners has shown. Any text if
//	                              there may be more to end, and "busy" if another client is ending one of the array
//	create    queue, id, limit, session, kind, units, value, since    as ahead; inserts nothing if the session is over, or the ID is there
//	ahead     queue, id, limit    the register as an entry without ID, if there is one; the entry and all ahead of it, or
//	                              the queue if id is empty, newest first, without values
//	enter     queue, id, limit, units, size, session, value, since    as create, of a permit, and room; only where Units is set
//	room      queue, id, limit, units, size    as ahead, but for one permit in place of all that is ahead, if the oldest entry is one, and that
//	                              size is declared, or none is given: its ID is "turn:" and the ID, and it has 0 units if the units
//	                              fit, else more than any semaphore
//	turned    queue, id, version  whether the entry may be granted, or the register has another version; the ID of a stray, or an empty one
//	list      queue, limit        entries, oldest first
//	find      id                  the entry
//	replace   id, version, kind, value    the entry as it is then, if it had that version; a NULL value stays as it was
//	delete    id                  its ID
//	register  queue               value, version
//	write     queue, value, version, id   the new version; nothing if the register has another version, or the entry is not there
//	owned     session, queues     entries; the queues are a JSON array, or NULL for all
//	survey    prefix, after, limit        entries of whole queues
//	tell      id, words           its ID
//	heard     id                  words
//	sight     targets, queue, revision            of each target: ID, moved, next, stray; see [Session.Watch]
//	watch     targets, queue, revision, session   as sight; if none has moved, has the session notified, once
//	poll      targets             of each: its name, whether it has moved, and how many entries have to go before it; only for
//	                              [Session.Poll]
package sqlstore
