// Package beneath leads from a Store of package farsync to the one of package recipe that it stands on. It is for the tests of
// what lies below the primitives, and for what the project's own programs show that no user asks for.
package beneath

import "github.com/farsync/farsync/recipe"

var lead func(store any) *recipe.Store

// Lead sets what Store does. Package farsync calls it, once, while it is initialized. It cannot be imported here, for it imports this.
func Lead(by func(store any) *recipe.Store) struct{} {
	lead = by
	return struct{}{}
}

// Store returns what store stands on, which must be a *farsync.Store.
func Store(store any) *recipe.Store { return lead(store) }
