// Package adapt fits farsync to libraries that ask their user for a lock or a leader: gocron and certmagic. It needs
// nothing of theirs, for their interfaces are met by their methods alone; docs/recipes.md shows how, and where the
// traps are.
package adapt
